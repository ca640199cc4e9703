// One object: how it is, what was asked for, what happened to it.

import { follow, getYaml, pathOf, remove, schemaOf } from "./api.js";
import { PARTS } from "./copies.js";
import { badge, el, fill, problem, since } from "./dom.js";
import { embedded } from "./list.js";
import { below, isSecret } from "./schema.js";

/** Fields of a status that are shown on their own. */
const NOT_LISTED = new Set(["conditions", "state", "reason", "message", "observedGeneration"]);

export async function show(view, { kind, kinds, project, name, signal, state }) {
  const page = new Page(kind, kinds, project, name, signal, await schemaOf(kind));
  fill(view, page.element());
  page.embed();
  const selectors = { fieldSelector: `metadata.name=${name}` };
  await follow(pathOf(kind, project), selectors, { table: false, signal, state, told: (event) => page.take(event) });
}

class Page {
  constructor(kind, kinds, project, name, signal, { schema, definitions }) {
    Object.assign(this, { kind, kinds, project, name, signal, schema, definitions });
    this.object = null;
    this.path = pathOf(kind, project, name);
    this.trouble = el("div");
    this.top = el("div", {}, el("p", { className: "quiet" }, "Loading…"));
    this.body = el("div");
    this.parts = el("div");
    this.happened = el("div");
    this.beside = el("span", { className: "actions beside" });
  }

  element() {
    const can = (verb) => this.kind.verbs.includes(verb);
    const change = el("a", { className: "button", href: `#${this.path}?edit` }, "Change");
    const away = el("button", { type: "button", className: "danger", onclick: () => this.confirm() }, "Delete");
    const has = (part) => this.kind.subresources.includes(part);
    const logs = el("a", { className: "button", href: `#${this.path}?log` }, "Logs");
    const run = el("a", { className: "button", href: `#${this.path}?exec` }, "Terminal");
    const back = el("a", { href: `#${pathOf(this.kind, this.project)}` }, this.kind.kind);
    const where = this.kind.inProjects ? [this.project, " / "] : [];
    this.question = el("dialog");
    return el("article", {},
      el("p", { className: "quiet" }, back, " / ", where),
      el("div", { className: "title" }, el("h1", {}, this.name), has("log") ? logs : null, has("exec") ? run : null, this.beside, can("update") ? change : null, can("delete") ? away : null),
      this.trouble, this.top, this.parts, this.happened, this.body, this.question,
    );
  }

  take(event) {
    if (event.begin) {
      this.object = null;
      return;
    }
    if (event.type === "DELETED") this.object = null;
    else if (event.object) this.object = event.object;
    if (event.complete || event.type === "DELETED" || this.object) this.draw();
  }

  draw() {
    if (!this.object) {
      fill(this.top, el("p", { className: "quiet" }, `There is no ${this.kind.kind} ${this.name} any more.`));
      fill(this.body);
      return;
    }
    const { metadata, status = {}, apiVersion, kind, ...asked } = this.object;
    fill(this.beside, this.ofWhole());
    fill(this.top, this.summary(metadata, status), conditions(status.conditions ?? []));
    const shown = (name, value) => tree(value, (given, part) => below(this.definitions, given, part), below(this.definitions, this.schema, name));
    fill(this.body, section("Status", shown("status", without(status, NOT_LISTED))),
      ...Object.entries(asked).map(([name, value]) => section(name === "spec" ? "Asked for" : name, shown(name, value))),
      this.about(metadata), this.document());
  }

  /** What can be done beside one copy is found at what it is a copy of. */
  ofWhole() {
    const [whole, part] = Object.entries(PARTS).find(([, part]) => part.kind === this.kind.kind) ?? [];
    const kind = whole && this.kinds.find((known) => known.kind === whole);
    if (!kind) return [];
    const name = part.field.split(".").reduce((value, key) => value?.[key], this.object);
    const link = (action, words) => {
      const href = `#${pathOf(kind, this.project, name)}?${action}&copy=${encodeURIComponent(this.name)}`;
      return kind.subresources.includes(action) ? el("a", { className: "button", href }, words) : null;
    };
    return [link("log", "Logs"), link("exec", "Terminal")];
  }

  summary(metadata, status) {
    const parts = [];
    if (status.state) parts.push(badge(status.state));
    if (status.reason && status.reason !== status.state) parts.push(el("span", {}, status.reason));
    if (status.message) parts.push(el("span", {}, status.message));
    if (metadata.deletionTimestamp) parts.push(badge("Terminating"), "asked to go ", since(metadata.deletionTimestamp), ` ago, held by ${(metadata.finalizers ?? []).join(", ") || "nobody"}`);
    return parts.length ? el("p", { className: "summary" }, parts.flatMap((part) => [part, " "])) : null;
  }

  about(metadata) {
    const owners = (metadata.ownerReferences ?? []).map((owner) => {
      const kind = this.kinds.find((known) => known.kind === owner.kind && owner.apiVersion.startsWith(`${known.group}/`));
      const words = `${owner.kind} ${owner.name}`;
      return kind ? el("a", { href: `#${pathOf(kind, this.project, owner.name)}` }, words) : words;
    });
    const rows = [
      ["created", el("span", {}, `${metadata.creationTimestamp} (`, since(metadata.creationTimestamp), " ago)")],
      ["uid", metadata.uid],
      ["generation", metadata.generation],
      ["belongs to", owners.length ? el("span", {}, owners) : undefined],
      ["labels", metadata.labels && tree(metadata.labels)],
      ["annotations", metadata.annotations && tree(metadata.annotations)],
      ["held by", (metadata.finalizers ?? []).join(", ") || undefined],
    ];
    return section("Metadata", pairs(rows.filter(([, value]) => value !== undefined)));
  }

  /** The whole object as YAML, asked for when it is opened. */
  document() {
    const place = el("pre");
    const open = async (event) => {
      if (!event.target.open) return;
      try {
        place.textContent = await getYaml(this.path);
      } catch (error) {
        place.textContent = error.message;
      }
    };
    return el("details", { ontoggle: open }, el("summary", {}, "YAML, with everything in it"), place);
  }

  embed() {
    const shown = (error) => (this.signal.aborted ? undefined : fill(this.trouble, problem(error)));
    const parts = PARTS[this.kind.kind];
    const kind = parts && this.kinds.find((known) => known.kind === parts.kind);
    if (kind) {
      const place = el("div");
      fill(this.parts, section(parts.title, place));
      embedded(place, kind, this.project, { fieldSelector: `${parts.field}=${this.name}` }, this.signal).catch(shown);
    }
    const events = this.kinds.find((known) => known.kind === "Event");
    if (events && this.kind.inProjects && this.kind.kind !== "Event") {
      const place = el("div");
      fill(this.happened, section("Events", place));
      const about = `spec.regarding.kind=${this.kind.kind},spec.regarding.name=${this.name}`;
      embedded(place, events, this.project, { fieldSelector: about }, this.signal).catch(shown);
    }
  }

  confirm() {
    const uid = this.object?.metadata.uid;
    const act = async () => {
      this.question.close();
      try {
        await remove(this.path, uid);
      } catch (error) {
        fill(this.trouble, problem(error));
      }
    };
    fill(this.question,
      el("h2", {}, `Delete ${this.kind.kind} ${this.name}?`),
      el("p", {}, "What it made goes with it. This cannot be taken back."),
      el("div", { className: "actions" },
        el("button", { type: "button", className: "danger", onclick: act }, "Delete"),
        el("button", { type: "button", onclick: () => this.question.close() }, "Keep"),
      ),
    );
    this.question.showModal();
  }
}

function conditions(all) {
  if (!all.length) return null;
  const row = (it) => el("tr", {}, el("td", {}, it.type), el("td", {}, badge(it.status)), el("td", {}, it.reason ?? ""),
    el("td", {}, it.message ?? ""), el("td", {}, it.lastTransitionTime ? since(it.lastTransitionTime) : ""));
  const heads = ["Condition", "Status", "Reason", "Message", "Since"].map((head) => el("th", {}, head));
  return section("Conditions", el("div", { className: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, all.map(row)))));
}

function section(title, content) {
  return content ? el("section", {}, el("h2", {}, title), content) : null;
}

/** Values as nested pairs; `below` tells the definition of a part. What is secret is shown when that is asked for. */
function tree(value, below = () => ({}), given = {}, secret = false) {
  const hidden = secret || isSecret(given);
  const part = (name, item) => tree(item, below, below(given, name), hidden);
  if (value === null || typeof value !== "object") return hidden ? veiled(value) : el("span", { className: "value" }, String(value));
  const entries = Object.entries(value);
  if (!entries.length) return null;
  if (Array.isArray(value)) {
    if (!hidden && value.every((item) => item === null || typeof item !== "object")) return el("span", { className: "value" }, value.join(", "));
    return el("ol", {}, value.map((item, at) => el("li", {}, part(at, item) ?? "")));
  }
  return pairs(entries.map(([name, item]) => [name, part(name, item) ?? "none"]));
}

function veiled(value) {
  const place = el("span", { className: "value" }, "•••••• ");
  const show = el("button", { type: "button", className: "small", onclick: () => fill(place, String(value)) }, "Show");
  place.append(show);
  return place;
}

function pairs(entries) {
  if (!entries.length) return null;
  return el("dl", {}, entries.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value instanceof Node ? value : String(value))]));
}

const without = (object, names) => Object.fromEntries(Object.entries(object).filter(([name]) => !names.has(name)));
