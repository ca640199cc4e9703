// Reading the definition of a kind.

/** The schema itself, where it is given by reference; what is said of the field stays said. */
export function resolve(definitions, schema) {
  const reference = schema.$ref ?? (schema.allOf?.length === 1 ? schema.allOf[0].$ref : undefined);
  if (!reference) return schema;
  const { $ref, allOf, ...said } = schema;
  return { ...resolve(definitions, definitions[reference.split("/").pop()] ?? {}), ...said };
}

/** Groups of properties of which exactly one is set. */
export function alternatives(schema) {
  const rules = (schema.allOf ?? []).flatMap((rule) => (rule.oneOf ? [rule.oneOf] : []));
  const groups = schema.oneOf ? [schema.oneOf, ...rules] : rules;
  const names = groups.map((group) => group.flatMap((branch) => branch.required ?? []));
  return names.filter((group) => group.every((name) => schema.properties[name]));
}

/** The definition of what stands below a name, in an object or in a map. */
export function below(definitions, given, name) {
  const schema = resolve(definitions, given ?? {});
  const values = typeof schema.additionalProperties === "object" ? schema.additionalProperties : {};
  return schema.properties?.[name] ?? schema.items ?? values;
}

/** Whether its values are not for everybody who looks at a screen. */
export const isSecret = (given) => given["x-orrery-sensitive"] === true || given.format === "password";
/** Whether it stays as it was made. */
export const isFixed = (given) => given["x-orrery-immutable"] === true;
