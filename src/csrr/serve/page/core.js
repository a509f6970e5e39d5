// Elements, requests and words that all views share. Text only ever enters the page as text, never as markup.

export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.flat(Infinity));
  return element;
}

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(path, options) {
  const key = sessionStorage.getItem("key");
  const headers = { accept: "application/json", ...(options.body ? { "content-type": "application/json" } : {}) };
  if (key) headers.authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service cannot be reached. Is it still running?");
  }
  if (response.status === 401) {
    await askForKey(key ? "The service does not take this key." : "This service answers only those who have a key.");
    return send(path, options);
  }
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (!response.ok || body === null) throw new Problem(response.status, body?.error ?? `The service answered with status ${response.status}.`);
  return body;
}

export function get(path, asked = {}, signal = undefined) {
  const given = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null);
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return send(query ? `${path}?${query}` : path, { signal });
}

export const post = (path, asked, signal = undefined) => send(path, { method: "POST", body: JSON.stringify(asked), signal });

let asking = null;
function askForKey(why) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("key");
    document.getElementById("key-why").textContent = why;
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("key", document.getElementById("key-text").value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

export const say = (text) => {
  document.getElementById("live").textContent = text;
};
export const count = (n) => n.toLocaleString("en");
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many ?? `${one}s`}`;
export const percent = (share) => (share >= 0.0995 || share === 0 ? `${Math.round(100 * share)} %` : `${(100 * share).toPrecision(2)} %`);
export const short = (number) => (number === null || number === undefined ? "" : Number.isInteger(number) ? count(number) : Math.abs(number) >= 1e-3 && Math.abs(number) < 1e5 ? String(Number(number.toPrecision(4))) : number.toExponential(2));
export const nameOf = (each) => each.title ?? `Item ${each.id ?? each.item}`;
export const itemPath = (id) => `#/item/${encodeURIComponent(id)}`;
export const personPath = (id) => `#/person/${encodeURIComponent(id)}`;
export const itemLink = (each) => h("a", { href: itemPath(each.id ?? each.item) }, nameOf(each));
export const day = (seconds) => (seconds > 1e8 ? new Date(1000 * seconds).toISOString().slice(0, 10) : "");

// A bar of parts, each a share of the width.
export function bar(parts, label) {
  let x = 0;
  const drawing = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label });
  drawing.append(svg("rect", { class: "back", width: 100, height: 8, rx: 1 }));
  for (const [kind, share] of parts) {
    const width = Math.max(0, Math.min(100 - x, 100 * share));
    drawing.append(svg("rect", { class: kind, x, width, height: 8 }));
    x += width;
  }
  return drawing;
}

// A list of named items or people with bars for their scores.
export function ranked(list, link, told = null) {
  if (!list.length) return h("p", { class: "soft" }, "Nothing.");
  const most = Math.max(...list.map((each) => each.score ?? 0), 1e-12);
  return h("ol", { class: "rows" }, list.map((each) => h("li", {},
    h("div", { class: "line" }, h("span", {}, link(each)), h("span", { class: "soft small num" }, told ? told(each) : short(each.score))),
    each.score === undefined || each.score === null ? null : bar([["accent", each.score / most]], `${short(each.score)}`))));
}

export const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);
export const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Ask for something that is made once, and wait until it is there. `isOver` says that nobody waits any more.
export async function make(kind, isOver) {
  await post("/v1/page/made", { kind });
  for (let none = 0; none < 10 && !isOver(); ) {
    await wait(700);
    const told = await get("/v1/page/made", { kind });
    if (told.state === "ready") return;
    if (told.state === "failed") throw new Problem(0, told.problem ?? "This could not be made.");
    if (told.state === "none") none += 1;
  }
  if (!isOver()) throw new Problem(0, "This could not be made; the log of the service may say why.");
}
