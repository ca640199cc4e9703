// Forms made from the definition of a kind: what can be written, what must be, and what each field means.
//
//   schema ──> field(schema, value) ──> { element, read() }
//
// Every field reads as `undefined` when nothing was entered, and is left out then, so that the server's
// defaults hold. Optional objects are built when they are added, so definitions may refer to themselves.

import { el } from "./dom.js";
import { alternatives, isFixed, isSecret, resolve } from "./schema.js";

/** A form over definitions that schemas refer to by name. */
export class Form {
  constructor(definitions) {
    this.definitions = definitions;
  }

  resolve(schema) {
    return resolve(this.definitions, schema);
  }

  /** A field for a value at a path, as the server calls it in its errors. */
  field(given, value, path) {
    const schema = this.resolve(given);
    if (schema.properties) return this.object(schema, value, path);
    if (schema.type === "array") return this.array(schema, value, path);
    if (schema.additionalProperties) return this.map(schema, value, path);
    if (schema.enum) return choice(schema.enum, value, path, schema.default);
    if (schema.type === "boolean") return choice([true, false], value, path, schema.default);
    if (schema.type === "integer" || schema.type === "number") return number(schema, value, path);
    if (schema.type === "string") return text(schema, value, path);
    return json(value, path);
  }

  /** The fields of an object, those of which only one can be set behind a choice. */
  object(schema, value = {}, path) {
    const fields = new Map();
    const body = el("div", { className: "fields" });
    const branches = alternatives(schema);
    const inBranch = new Set(branches.flat());
    for (const names of branches) {
      const part = this.oneOf(schema, names, value, path);
      names.forEach((name) => fields.set(name, { read: () => part.read(name) }));
      body.append(part.element);
    }
    for (const [name, property] of Object.entries(schema.properties)) {
      if (inBranch.has(name) || property.readOnly) continue;
      const required = schema.required?.includes(name) ?? false;
      const part = this.property(name, property, value[name], join(path, name), required);
      fields.set(name, part);
      body.append(part.element);
    }
    const read = () => {
      const entries = [...fields].map(([name, part]) => [name, part.read()]);
      const set = entries.filter(([, entered]) => entered !== undefined);
      return set.length ? Object.fromEntries(set) : undefined;
    };
    return { element: body, read };
  }

  /** A named field with its description. Objects that may be absent can be added and removed. */
  property(name, given, value, path, required) {
    const schema = this.resolve(given);
    const isGroup = Boolean(schema.properties || schema.type === "array" || schema.additionalProperties);
    const title = [el("span", { className: "name" }, name), required ? el("abbr", { title: "required" }, "*") : null];
    const words = [schema.description, isFixed(schema) ? "It cannot be changed later." : ""].filter(Boolean).join(" ");
    const help = words ? el("span", { className: "quiet" }, words) : null;
    if (!isGroup) {
      const part = this.field(given, value, path);
      return { element: el("label", { className: "field" }, el("span", {}, title), part.element, help), read: part.read };
    }
    if (required || !schema.properties) {
      const part = this.field(given, value, path);
      const head = el("legend", {}, title);
      return { element: el("fieldset", { "data-path": path }, head, help, part.element), read: part.read };
    }
    return this.optional(title, help, given, value, path);
  }

  optional(title, help, given, value, path) {
    let part = null;
    const place = el("div");
    const button = el("button", { type: "button", className: "small" });
    const show = (entered) => {
      part = this.field(given, entered, path);
      place.replaceChildren(part.element);
      button.textContent = "Remove";
    };
    const hide = () => {
      part = null;
      place.replaceChildren();
      button.textContent = "Add";
    };
    button.addEventListener("click", () => (part ? hide() : show({})));
    if (value === undefined) hide();
    else show(value);
    const head = el("legend", {}, title, " ", button);
    // An object that was added and has nothing in it is still there.
    const read = () => (part ? (part.read() ?? {}) : undefined);
    return { element: el("fieldset", { "data-path": path }, head, help, place), read };
  }

  /** One of several properties. */
  oneOf(schema, names, value, path) {
    let part = null;
    let chosen = names.find((name) => value[name] !== undefined) ?? "";
    const place = el("div");
    const show = () => {
      part = chosen ? this.field(schema.properties[chosen], value[chosen], join(path, chosen)) : null;
      const about = chosen ? this.resolve(schema.properties[chosen]).description : "";
      place.replaceChildren(...(part ? [el("p", { className: "quiet" }, about ?? ""), part.element] : []));
    };
    const options = ["", ...names].map((name) => el("option", { value: name, selected: name === chosen }, name || "choose…"));
    const select = el("select", {
      "aria-label": `one of ${names.join(", ")}`,
      "data-path": path,
      onchange: (event) => {
        chosen = event.target.value;
        show();
      },
    }, options);
    show();
    const head = el("legend", {}, "One of ", select);
    const read = (name) => (part && name === chosen ? (part.read() ?? {}) : undefined);
    return { element: el("fieldset", {}, head, place), read };
  }

  array(schema, value = [], path) {
    const rows = [];
    const list = el("div", { className: "rows" });
    const add = (entered) => {
      const part = this.field(schema.items ?? {}, entered, `${path}[${rows.length}]`);
      rows.push(part);
      const remove = () => {
        rows.splice(rows.indexOf(part), 1);
        row.remove();
      };
      const row = el("div", { className: "row" }, part.element, removal(remove));
      list.append(row);
    };
    value.forEach(add);
    const read = () => {
      const items = rows.map((part) => part.read()).filter((item) => item !== undefined);
      return items.length ? items : undefined;
    };
    return { element: el("div", {}, list, addition(() => add(undefined))), read };
  }

  map(schema, value = {}, path) {
    const rows = new Set();
    const list = el("div", { className: "rows" });
    const values = schema.additionalProperties === true ? {} : { ...schema.additionalProperties };
    if (isSecret(schema)) values["x-orrery-sensitive"] = true;
    const add = (key, entered) => {
      const name = el("input", { type: "text", placeholder: "key", "aria-label": `a key of ${path}`, value: key });
      const part = this.field(values, entered, key ? `${path}[${key}]` : path);
      const entry = { key: () => name.value, read: part.read };
      rows.add(entry);
      const remove = () => {
        rows.delete(entry);
        row.remove();
      };
      const row = el("div", { className: "row" }, name, part.element, removal(remove));
      list.append(row);
    };
    Object.entries(value).forEach(([key, entered]) => add(key, entered));
    const read = () => {
      const named = [...rows].filter((entry) => entry.key() !== "");
      return named.length ? Object.fromEntries(named.map((entry) => [entry.key(), entry.read() ?? ""])) : undefined;
    };
    return { element: el("div", {}, list, addition(() => add("", undefined))), read };
  }
}

/** Marks the fields that a refusal names; the words of those that are not here. */
export function mark(form, causes) {
  form.querySelectorAll("[aria-invalid]").forEach((input) => input.removeAttribute("aria-invalid"));
  form.querySelectorAll(".wrong").forEach((note) => note.remove());
  const paths = new Map([...form.querySelectorAll("[data-path]")].map((input) => [input.dataset.path, input]));
  return causes.filter((cause) => {
    const input = paths.get(cause.field);
    if (!input) return true;
    input.setAttribute("aria-invalid", "true");
    input.after(el("span", { className: "wrong" }, cause.message));
    return false;
  });
}

const join = (path, name) => (path ? `${path}.${name}` : name);
const removal = (onclick) => el("button", { type: "button", className: "small", "aria-label": "Remove", onclick }, "×");
const addition = (onclick) => el("button", { type: "button", className: "small", onclick }, "Add");

function choice(values, value, path, preset) {
  const words = preset === undefined ? "not set" : `not set (${preset})`;
  const option = (one) => el("option", { value: String(one), selected: one === value }, String(one));
  const select = el("select", { "data-path": path }, el("option", { value: "" }, words), values.map(option));
  return { element: select, read: () => values.find((one) => String(one) === select.value) };
}

function number(schema, value, path) {
  const { minimum, maximum } = schema;
  const input = el("input", {
    type: "number",
    "data-path": path,
    step: schema.type === "integer" ? "1" : "any",
    min: minimum === undefined ? null : String(minimum),
    max: maximum === undefined ? null : String(maximum),
    placeholder: schema.default === undefined ? null : String(schema.default),
    value: value === undefined ? null : String(value),
  });
  return { element: input, read: () => (input.value === "" ? undefined : Number(input.value)) };
}

function text(schema, value, path) {
  const secret = isSecret(schema);
  const long = typeof value === "string" && value.includes("\n") && !secret;
  const input = el(long ? "textarea" : "input", {
    type: long ? null : secret ? "password" : "text",
    autocomplete: "off",
    "data-path": path,
    placeholder: schema.default === undefined ? null : String(schema.default),
  });
  input.value = value ?? "";
  return { element: input, read: () => (input.value === "" ? undefined : input.value) };
}

/** What has no definition is written as it is. */
function json(value, path) {
  const input = el("textarea", { "data-path": path, placeholder: "JSON" });
  input.value = value === undefined ? "" : JSON.stringify(value, null, 2);
  const read = () => {
    if (input.value.trim() === "") return undefined;
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(`${path} is no JSON: ${error.message}`);
    }
  };
  return { element: input, read };
}
