// What there is, at a glance: each kind that has objects, and how they are.

import { get, pathOf } from "./api.js";
import { badge, el, fill } from "./dom.js";

const LOOK_EVERY_MS = 5000;
/** Objects of a kind that are looked at; more are counted as such. */
const LOOKED_AT_MAX = 500;
/** Records of what happened and who may what are not what a fleet is made of. */
const NOT_SHOWN = new Set(["Event", "AccessToken", "JoinToken", "Revocation", "Role", "RoleBinding", "Secret"]);

export async function overview(view, { kinds, project, signal, state }) {
  const shown = kinds.filter((kind) => !NOT_SHOWN.has(kind.kind));
  const cards = el("div", { className: "cards" });
  fill(view, el("h1", {}, project ? `Project ${project}` : "Everything"), cards);
  for (;;) {
    try {
      const looks = await Promise.all(shown.map((kind) => look(kind, project)));
      if (signal.aborted) return;
      const there = looks.filter((found) => found && found.count > 0);
      const nothing = el("p", { className: "quiet" }, "Nothing has been declared here yet. Choose a kind to begin with.");
      fill(cards, there.length ? there.map((found) => card(found, project)) : nothing);
      state("");
    } catch (error) {
      if (error.code === 401) throw error;
      state(`Not connected, trying again: ${error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    if (signal.aborted) return;
  }
}

/** How many objects there are, and in which states; nothing for what one may not see. */
async function look(kind, project) {
  try {
    const found = await get(`${pathOf(kind, project)}?limit=${LOOKED_AT_MAX}`);
    const states = new Map();
    for (const object of found.items) {
      const state = stateOf(object);
      if (state) states.set(state, (states.get(state) ?? 0) + 1);
    }
    const more = found.metadata.remainingItemCount ?? 0;
    return { kind, count: found.items.length + more, states, partly: more > 0 };
  } catch (error) {
    if (error.code === 403) return null;
    throw error;
  }
}

function stateOf({ metadata, status }) {
  if (metadata.deletionTimestamp) return "Terminating";
  const ready = status?.conditions?.find((condition) => condition.type === "Ready");
  return status?.state ?? (ready && (ready.status === "True" ? "Ready" : ready.reason || "NotReady"));
}

function card({ kind, count, states, partly }, project) {
  const badges = [...states].sort().map(([state, many]) => el("li", {}, badge(state), ` ${many}`));
  return el("a", { className: "card", href: `#${pathOf(kind, project)}` },
    el("h2", {}, kind.kind), el("p", { className: "count" }, String(count)),
    badges.length ? el("ul", {}, badges) : null,
    partly ? el("p", { className: "quiet" }, `states of the first ${LOOKED_AT_MAX}`) : null);
}
