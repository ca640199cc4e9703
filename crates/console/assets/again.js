// A page whose own parts could not be loaded, because the network changed or the server was starting, is loaded again.
"use strict";

const WAIT_MS = 1000;

addEventListener("error", (event) => {
  // What scripts do wrong is not mended by loading them again; it has no element.
  if (!(event.target instanceof HTMLScriptElement)) return;
  document.getElementById("view")?.replaceChildren("Not connected, trying again…");
  setTimeout(() => location.reload(), WAIT_MS);
}, true);
