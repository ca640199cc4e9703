// The objects of a kind as a table that follows what happens.

import { follow, pathOf } from "./api.js";
import { badge, el, fill, since } from "./dom.js";

/** Rows that are shown; more are counted, and found by the filter. */
const ROWS_MAX = 500;
/** Columns that say how an object is. */
const STATES = new Set(["State", "Status", "Ready", "Phase", "Health", "Type"]);

export async function list(view, { kind, project, signal, state, selectors = {} }) {
  const table = new Table(kind, project);
  const add = el("a", { className: "button main", href: `#${pathOf(kind, project)}?new` }, `New ${kind.kind}`);
  fill(view, el("div", { className: "title" }, el("h1", {}, kind.kind), kind.verbs.includes("create") ? add : null), table.element());
  await follow(pathOf(kind, project), selectors, { table: true, signal, state, told: (event) => table.take(event) });
}

/** The same within another page, without a heading. */
export async function embedded(place, kind, project, selectors, signal) {
  const table = new Table(kind, project);
  fill(place, table.element());
  await follow(pathOf(kind, project), selectors, { table: true, signal, state: () => {}, told: (event) => table.take(event) });
}

class Table {
  constructor(kind, project) {
    this.kind = kind;
    this.project = project;
    this.columns = [];
    this.rows = new Map();
    this.complete = false;
    this.drawing = false;
  }

  element() {
    this.filter = el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter", oninput: () => this.draw() });
    this.count = el("span", { className: "quiet", role: "status" }, "Loading…");
    this.body = el("div", { className: "scroll" });
    return el("section", {}, el("div", { className: "bar" }, this.filter, this.count), this.body);
  }

  take(event) {
    if (event.begin) {
      this.rows.clear();
      this.complete = false;
      return;
    }
    if (event.complete) this.complete = true;
    else this.change(event);
    if (this.complete && !this.drawing) {
      this.drawing = true;
      requestAnimationFrame(() => {
        this.drawing = false;
        this.draw();
      });
    }
  }

  change({ type, object }) {
    if (object.columnDefinitions?.length) this.columns = object.columnDefinitions;
    for (const row of object.rows ?? []) {
      const { uid } = row.object.metadata;
      if (type === "DELETED") this.rows.delete(uid);
      else this.rows.set(uid, row);
    }
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    const all = [...this.rows.values()];
    const found = all.filter((row) => !wanted || this.words(row).some((word) => word.includes(wanted)));
    found.sort((one, other) => key(one).localeCompare(key(other)));
    const shown = found.slice(0, ROWS_MAX);
    this.count.textContent = words(all.length, found.length, shown.length);
    const columns = this.columns.map((column, at) => ({ ...column, at })).filter((column) => column.priority === 0);
    const withProject = this.kind.inProjects && !this.project;
    const heads = [withProject ? el("th", {}, "Project") : null, columns.map((column) => el("th", { title: column.description }, column.name))];
    const body = shown.map((row) => this.row(row, columns, withProject));
    fill(this.body, all.length ? el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, body)) : el("p", { className: "quiet" }, `There is no ${this.kind.kind} here.`));
  }

  words(row) {
    return [row.object.metadata.namespace ?? "", ...row.cells].map((cell) => String(cell).toLowerCase());
  }

  row(row, columns, withProject) {
    const { metadata } = row.object;
    const link = el("a", { href: `#${pathOf(this.kind, metadata.namespace, metadata.name)}` }, metadata.name);
    const cell = (column) => {
      const value = row.cells[column.at];
      if (column.format === "name") return el("td", {}, link);
      if (column.name === "Age") return el("td", {}, since(metadata.creationTimestamp));
      return el("td", { className: column.type === "integer" ? "number" : "" }, STATES.has(column.name) && value !== "" ? badge(value) : String(value ?? ""));
    };
    const gone = metadata.deletionTimestamp ? "going" : "";
    return el("tr", { className: gone }, withProject ? el("td", {}, metadata.namespace) : null, columns.map(cell));
  }
}

const key = (row) => `${row.object.metadata.namespace ?? ""}/${row.object.metadata.name}`;

function words(all, found, shown) {
  const many = found === all ? `${all}` : `${found} of ${all}`;
  return shown < found ? `${many}, the first ${shown} are shown` : many;
}
