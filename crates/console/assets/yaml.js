// Objects as YAML, to be read and changed by people. Only written here: the server reads it.

/** Words that YAML 1.1 or 1.2 takes for something else than a text, and texts with a meaning to it. */
const SPECIAL = /^(|~|null|true|false|yes|no|on|off|y|n|[-+.]?[0-9].*|\.(inf|nan))$/i;
const PLAIN = /^[A-Za-z0-9_./][A-Za-z0-9_./ @+,()-]*$/;

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !SPECIAL.test(value) && value === value.trim() ? value : JSON.stringify(value);
}

function lines(value, indent) {
  const margin = "  ".repeat(indent);
  if (Array.isArray(value)) {
    return value.flatMap((item) => {
      if (isLeaf(item)) return [`${margin}- ${leaf(item)}`];
      const [first, ...rest] = lines(item, indent + 1);
      return [`${margin}- ${first.trimStart()}`, ...rest];
    });
  }
  return Object.entries(value).flatMap(([key, item]) =>
    isLeaf(item) ? [`${margin}${scalar(key)}: ${leaf(item)}`] : [`${margin}${scalar(key)}:`, ...lines(item, indent + 1)],
  );
}

const isLeaf = (value) => value === null || typeof value !== "object" || Object.keys(value).length === 0;
const leaf = (value) => (value !== null && typeof value === "object" ? (Array.isArray(value) ? "[]" : "{}") : scalar(value));

/** An object as a document. */
export function toYaml(object) {
  return `${lines(object, 0).join("\n")}\n`;
}
