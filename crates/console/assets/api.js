// The server, as a page sees it: the REST dialect, with the rights of whoever is signed in.

const TOKEN = "orrery-token";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/** How long to wait before a stream that broke is opened again. */
const RETRY_MS = 1000;
const RETRY_MS_MAX = 15000;

/**
 * Asks until there is an answer, good or not: a network that changes, or a server that starts, is no reason to stand
 * still. `state` gets words for people, empty when all is well.
 */
export async function answered(ask, state) {
  for (let wait = RETRY_MS; ; wait = Math.min(wait * 2, RETRY_MS_MAX)) {
    try {
      const answer = await ask();
      state("");
      return answer;
    } catch (error) {
      if (error instanceof Refusal) throw error;
      state(`Not connected, trying again: ${error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** What the server refused, with its reason and the fields that it is about. */
export class Refusal extends Error {
  constructor(status, code) {
    super(status.message ?? `the server answered with ${code}`);
    this.code = code;
    this.reason = status.reason ?? "";
    this.causes = status.details?.causes ?? [];
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  clear: () => sessionStorage.removeItem(TOKEN),
};

async function send(path, { method = "GET", accept = "application/json", type, body, signal } = {}) {
  const headers = { Accept: accept };
  if (type) headers["Content-Type"] = type;
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const answer = await fetch(path, { method, headers, body, signal, cache: "no-store", credentials: "same-origin" });
  if (answer.ok) return answer;
  const text = await answer.text();
  let status;
  try {
    status = JSON.parse(text);
  } catch {
    status = { message: text.trim() || undefined };
  }
  throw new Refusal(status, answer.status);
}

export const get = async (path) => (await send(path)).json();
export const getYaml = async (path) => (await send(path, { accept: "application/yaml" })).text();
/** Deletes the object that has this uid, and none that was made under its name since. */
export const remove = (path, uid) =>
  write("DELETE", path, "application/json", JSON.stringify({ kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid } }));
export const write = async (method, path, type, body) =>
  (await send(path, { method, type, body })).json();

/** The kinds that can be listed, each in the version that the server prefers. */
export async function discover() {
  const groups = await (await send("/apis", { accept: DISCOVERY })).json();
  return groups.items.flatMap((group) => {
    const { version, resources } = group.versions[0];
    const listed = resources.filter((resource) => resource.verbs.includes("list"));
    return listed.map((resource) => ({
      group: group.metadata.name,
      version,
      plural: resource.resource,
      kind: resource.responseKind.kind,
      inProjects: resource.scope === "Namespaced",
      verbs: resource.verbs,
      subresources: (resource.subresources ?? []).map((sub) => sub.subresource),
    }));
  });
}

/** Where objects of a kind are; `project` and `name` are optional. */
export function pathOf(kind, project, name) {
  const within = kind.inProjects && project ? `/namespaces/${encodeURIComponent(project)}` : "";
  const named = name ? `/${encodeURIComponent(name)}` : "";
  return `/apis/${kind.group}/${kind.version}${within}/${kind.plural}${named}`;
}

/** The definitions of a group, asked for once. */
const documents = new Map();

/** What an object of a kind is made of, with the definitions that it refers to. */
export async function schemaOf(kind) {
  const path = `/openapi/v3/apis/${kind.group}/${kind.version}`;
  if (!documents.has(path)) documents.set(path, await get(path));
  const definitions = documents.get(path).components.schemas;
  const is = (schema) => schema["x-kubernetes-group-version-kind"]?.some((gvk) => gvk.kind === kind.kind);
  const found = Object.entries(definitions).find(([name, schema]) => is(schema) && !name.endsWith("List"));
  return { schema: found?.[1] ?? {}, definitions };
}

/**
 * Tells what there is and every change of it, until `signal` is aborted. `told` gets `{ begin: true }` before
 * everything is told anew, `{ complete: true }` when all of it has been, and `{ type, object }`; `state` gets words
 * for people, empty when all is well.
 */
export async function follow(path, selectors, { table, signal, told, state }) {
  const query = new URLSearchParams({
    ...selectors,
    watch: "true",
    allowWatchBookmarks: "true",
    sendInitialEvents: "true",
    resourceVersionMatch: "NotOlderThan",
  });
  let wait = RETRY_MS;
  while (!signal.aborted) {
    try {
      const answer = await send(`${path}?${query}`, { accept: table ? TABLE : "application/json", signal });
      told({ begin: true });
      for await (const event of lines(answer.body)) {
        if (event.type === "ERROR") throw new Refusal(event.object, event.object.code);
        wait = RETRY_MS;
        state("");
        if (event.type !== "BOOKMARK") told(event);
        else if (event.object.metadata?.annotations?.["k8s.io/initial-events-end"]) told({ complete: true });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && [401, 403, 404].includes(error.code)) throw error;
      state(`Not connected, trying again: ${error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, RETRY_MS_MAX);
  }
}

/** A text as it comes, piece by piece. */
export async function* text(path, signal) {
  const answer = await send(path, { accept: "text/plain", signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  // That there is an answer is told before there is any text.
  for (let piece = { value: "", done: false }; !piece.done; piece = await reader.read()) yield piece.value;
}

/** A socket with the channels of a command. A page cannot set headers on it, so the token is among the protocols. */
export function socket(path) {
  const protocols = ["v5.channel.k8s.io"];
  if (token.get()) {
    const encoded = btoa(token.get()).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    protocols.push(`base64url.bearer.authorization.k8s.io.${encoded}`);
  }
  const made = new WebSocket(location.origin.replace(/^http/, "ws") + path, protocols);
  made.binaryType = "arraybuffer";
  return made;
}

/** The documents of a stream, one a line. */
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
