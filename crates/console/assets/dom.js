// Making elements. Texts are always texts: nothing that comes from a resource is read as HTML.

/** An element with properties and children; strings become texts, `null` nothing. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

/** Puts children into an element in place of what it has. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null));
  return element;
}

/** What went wrong, in words, and at which fields. */
export function problem(error) {
  const causes = error.causes ?? [];
  const list = causes.map((cause) => el("li", {}, el("code", {}, cause.field), " ", cause.message));
  const words = causes.length ? `${causes.length === 1 ? "One field is" : "Fields are"} not right:` : error.message;
  return el("div", { className: "problem", role: "alert" }, words, list.length ? el("ul", {}, list) : null);
}

/** How a state looks: the words are the states and conditions of the kinds. */
export function tone(word) {
  const text = String(word).toLowerCase();
  if (/^(running|ready|true|succeeded|bound|active|available|synced|attached|normal)$/.test(text)) return "good";
  if (/fail|lost|error|unknown|notready|notscheduled|false|warning|unavailable|refused/.test(text)) return "bad";
  if (/pending|starting|stopping|creating|deleting|waiting|progress|terminating/.test(text)) return "busy";
  return "";
}

/** A word in its colour. */
export function badge(word) {
  return el("span", { className: `badge ${tone(word)}` }, String(word));
}

/** How long ago a time was, as people say it; it goes on while it is shown. */
export function since(time) {
  return el("time", { datetime: time, title: time }, ago(time));
}

function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)}${unit}`;
  }
  return `${seconds}s`;
}

setInterval(() => {
  for (const shown of document.querySelectorAll("time")) shown.textContent = ago(shown.dateTime);
}, 5000);
