// The copies of a workload, to choose one of.

import { follow, pathOf } from "./api.js";
import { el, fill } from "./dom.js";

/** Which kind the copies of a kind are, and the field that says whose. */
export const PARTS = { Workload: { kind: "WorkloadInstance", field: "spec.workload", title: "Copies" } };

/** Tells the names of all copies whenever they have changed, until the page is left. */
export async function copies({ kind, kinds, project, name, signal, state }, told) {
  const parts = PARTS[kind.kind];
  const own = parts && kinds.find((known) => known.kind === parts.kind);
  if (!own) return;
  const found = new Set();
  let complete = false;
  const take = (event) => {
    if (event.begin) {
      found.clear();
      complete = false;
    } else if (event.complete) complete = true;
    else if (event.type === "DELETED") found.delete(event.object.metadata.name);
    else found.add(event.object.metadata.name);
    if (complete) told([...found].sort());
  };
  const selectors = { fieldSelector: `${parts.field}=${name}` };
  try {
    await follow(pathOf(own, project), selectors, { table: false, signal, state, told: take });
  } catch (error) {
    // Whoever may not list copies can still name one in the address.
    if (error.code !== 403) throw error;
  }
}

/** A choice of one copy, or of what is meant by none. */
export function copyChooser(none, chosen, change) {
  let now = chosen;
  const chosenAnew = () => {
    now = chooser.value;
    change(now);
  };
  const chooser = el("select", { "aria-label": "Copy", onchange: chosenAnew });
  chooser.offer = (names) => {
    const all = ["", ...new Set([...names, ...(now ? [now] : [])])];
    fill(chooser, all.map((name) => el("option", { value: name, selected: name === now }, name || none)));
  };
  chooser.offer([]);
  return chooser;
}
