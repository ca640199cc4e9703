// Making an object, and changing one: in a form, or as YAML.

import { getYaml, get, pathOf, schemaOf, write } from "./api.js";
import { el, fill, problem } from "./dom.js";
import { Form, mark } from "./form.js";
import { toYaml } from "./yaml.js";

/** Top-level fields that are not entered: what the kind is, and what the server says. */
const NOT_ENTERED = new Set(["apiVersion", "kind", "metadata", "status"]);
/** Who wrote a field, as far as this page wrote it. */
const MANAGER = "fieldManager=console";

/** How often a change is tried that the server's own words about the object overtake. */
const ATTEMPTS = 5;
/** The version of an object in its YAML. */
const VERSION = /^(  resourceVersion: ).*$/m;

/** What people have declared of an object, to compare. */
function declared({ status, metadata, ...rest }) {
  const { uid, generation, labels, annotations } = metadata;
  return JSON.stringify([rest, uid, generation, labels, annotations]);
}

/** Shows the editor of a new object, or of the one that is there. `done` is given what was written. */
export async function edit(view, { kind, project, name, projects }, done) {
  const path = pathOf(kind, project, name);
  const [{ schema, definitions }, current] = await Promise.all([schemaOf(kind), name ? get(path) : null]);
  const editor = new Editor({ kind, project, name, projects, schema, definitions, current, done });
  fill(view, editor.element());
  view.querySelector("input, select")?.focus();
}

class Editor {
  constructor(given) {
    Object.assign(this, given);
    this.form = new Form(this.definitions);
    this.asYaml = null;
    this.trouble = el("div");
    this.place = el("div");
  }

  element() {
    const title = this.name ? `Change ${this.kind.kind} ${this.name}` : `New ${this.kind.kind}`;
    this.tabs = ["Form", "YAML"].map((tab) =>
      el("button", { type: "button", role: "tab", onclick: () => this.attempt(() => this.turn(tab)) }, tab),
    );
    const save = el("button", { type: "submit", className: "main" }, this.name ? "Save" : "Create");
    const check = el("button", { type: "button", onclick: () => this.attempt(() => this.save(true)) }, "Check");
    const submit = (event) => {
      event.preventDefault();
      this.attempt(() => this.save(false));
    };
    this.showForm();
    return el("form", { className: "editor", noValidate: true, onsubmit: submit },
      el("h1", {}, title),
      el("p", { className: "quiet" }, this.schema?.description ?? ""),
      el("div", { role: "tablist" }, this.tabs),
      this.place,
      this.trouble,
      el("div", { className: "actions" }, save, check, el("a", { href: this.back() }, "Cancel")),
    );
  }

  back() {
    return `#${pathOf(this.kind, this.project, this.name)}`;
  }

  select(tab) {
    this.tabs.forEach((button) => button.setAttribute("aria-selected", String(button.textContent === tab)));
  }

  showForm() {
    const { metadata = {} } = this.current ?? {};
    const input = (path, value) => el("input", { type: "text", "data-path": path, value: value ?? "", disabled: Boolean(this.name) });
    this.nameInput = input("metadata.name", metadata.name);
    const parts = [el("label", { className: "field" }, el("span", {}, "name", el("abbr", { title: "required" }, "*")), this.nameInput)];
    if (this.kind.inProjects) {
      // The one in the address may be new, or one of which the list may not be seen.
      const chosen = metadata.namespace || this.project || "default";
      const options = [...new Set([...this.projects, chosen])].map((project) => el("option", { value: project, selected: project === chosen }, project));
      this.projectInput = el("select", { "data-path": "metadata.namespace", disabled: Boolean(this.name) }, options);
      parts.push(el("label", { className: "field" }, el("span", {}, "project"), this.projectInput));
    }
    this.labels = this.form.map({ additionalProperties: { type: "string" } }, metadata.labels, "metadata.labels");
    parts.push(el("fieldset", {}, el("legend", {}, "labels"), this.labels.element));
    this.parts = Object.entries(this.schema?.properties ?? {}).filter(([name]) => !NOT_ENTERED.has(name)).map(([name, schema]) => {
      const part = this.form.property(name, schema, this.current?.[name], name, name === "spec");
      parts.push(part.element);
      return [name, part];
    });
    this.asYaml = null;
    fill(this.place, parts);
    this.select("Form");
    this.untouched = JSON.stringify(this.read());
  }

  async turn(tab) {
    if (tab === "Form") {
      if (!this.asYaml) return;
      const lost = this.asYaml.value !== this.shownYaml;
      if (lost && !window.confirm("The form does not know what was changed in the YAML. Leave it and begin anew?")) return;
      this.showForm();
      return;
    }
    if (this.asYaml) return;
    const entered = this.read();
    const untouched = this.name && JSON.stringify(entered) === this.untouched;
    const text = untouched ? await getYaml(pathOf(this.kind, this.project, this.name)) : toYaml(entered);
    this.shownYaml = text;
    this.asYaml = el("textarea", { className: "document", spellcheck: "false", "aria-label": "YAML", value: text });
    this.asYaml.value = text;
    fill(this.place, this.asYaml);
    this.select("YAML");
  }

  /** What the form says. What it does not show of the object stays as it is. */
  read() {
    const { metadata = {}, ...rest } = structuredClone(this.current ?? {});
    const { status, ...kept } = rest;
    const project = this.projectInput ? { namespace: this.projectInput.value } : {};
    const object = {
      apiVersion: `${this.kind.group}/${this.kind.version}`,
      kind: this.kind.kind,
      ...kept,
      metadata: { ...metadata, name: this.nameInput.value.trim(), ...project, labels: this.labels.read() },
    };
    for (const [name, part] of this.parts) object[name] = part.read();
    return JSON.parse(JSON.stringify(object));
  }

  async save(dryRun) {
    const project = this.name ? this.project : this.projectInput?.value ?? this.project;
    const query = dryRun ? `${MANAGER}&dryRun=All` : MANAGER;
    const path = pathOf(this.kind, project, this.name);
    const send = (version) => write(this.name ? "PUT" : "POST", `${path}?${query}`, ...this.entered(version));
    const written = await this.unlessDeclared(path, send);
    if (dryRun) fill(this.trouble, el("p", { className: "well", role: "status" }, "The server would take it as it is."));
    else this.done(written);
  }

  /** The type and the text of what was entered, as a change of this version of the object. */
  entered(version) {
    if (this.asYaml) {
      const text = this.asYaml.value;
      return ["application/yaml", version ? text.replace(VERSION, `$1"${version}"`) : text];
    }
    const object = this.read();
    if (version) object.metadata.resourceVersion = version;
    return ["application/json", JSON.stringify(object)];
  }

  /** Writes, and writes again when only the status has changed meanwhile: that is nobody's change but the world's. */
  async unlessDeclared(path, send) {
    let version = this.current?.metadata.resourceVersion;
    for (let left = ATTEMPTS; ; left -= 1) {
      try {
        return await send(version);
      } catch (error) {
        if (error.reason !== "Conflict" || !this.current || left === 1) throw error;
        const now = await get(path);
        if (declared(now) !== declared(this.current)) throw error;
        version = now.metadata.resourceVersion;
      }
    }
  }

  /** Says what went wrong, at the fields that it is about. */
  async attempt(work) {
    fill(this.trouble);
    try {
      mark(this.place, []);
      await work();
    } catch (error) {
      const elsewhere = mark(this.place, error.causes ?? []);
      const words = error.reason === "Conflict" ? "Somebody else has changed it meanwhile: cancel, and look at it again." : error.message;
      const some = (error.causes ?? []).length > elsewhere.length;
      const shown = some && elsewhere.length === 0 ? { message: "What is marked above is not right yet." } : { message: words, causes: elsewhere };
      fill(this.trouble, problem(shown));
      this.place.querySelector("[aria-invalid]")?.scrollIntoView({ block: "center" });
    }
  }
}
