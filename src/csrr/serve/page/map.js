// The catalog in two dimensions. Of what is in view, the most chosen items are asked for, so that it may be large.
import { count, get, h, itemLink, itemPath, make, nameOf, plural, say } from "./core.js";

export async function showMap(_, { isOver, query, again }) {
  const first = await get("/v1/page/map", { k: 1 });
  const title = "Map of the catalog";
  const head = [h("h1", {}, title), h("p", { class: "soft" }, "Items that the same people choose lie together; larger ones are chosen more often. Drag, zoom, and click an item.")];
  if (first.state !== "ready") {
    const status = h("p", { role: "status" }, first.state === "failed" ? `It could not be drawn: ${first.problem}` : "The map is being drawn, once for this model. This takes seconds for thousands of items, and minutes for hundreds of thousands ...");
    const shown = async () => {
      try {
        await make("map", isOver);
        if (!isOver()) again();
      } catch (error) {
        status.textContent = error.message;
      }
    };
    return { title, body: [...head, h("div", { class: "card" }, status)], shown: first.state === "failed" ? null : shown };
  }
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "Map of the items; the list beside it names the most chosen in view. Arrow keys move it, plus and minus zoom." });
  const tip = h("div", { class: "tip", hidden: true }), inView = h("ol", { class: "rows" }), told = h("p", { class: "soft small", role: "status" }), legend = h("ul", { class: "legend" });
  const look = { x: 0.5, y: 0.5, size: 1.04 };
  let points = [], mark = null, under = null, asked = null, timer = 0, colors = [];

  // The square of the map fills the canvas, whatever its shape.
  const box = () => ({ width: canvas.clientWidth, height: canvas.clientHeight, ux: canvas.clientWidth / look.size, uy: canvas.clientHeight / look.size });
  const place = ([, x, y]) => {
    const { width, height, ux, uy } = box();
    return [(x - look.x) * ux + width / 2, (y - look.y) * uy + height / 2];
  };
  const radius = (n) => Math.min(16, (1.6 + 1.1 * Math.log10(1 + n)) * Math.max(1, look.size ** -0.25));

  function draw() {
    const { width, height } = box(), ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    for (let n = points.length - 1; n >= 0; n--) {
      const [x, y] = place(points[n]);
      pen.globalAlpha = 0.72;
      pen.fillStyle = colors[points[n][4] < 0 ? 8 : points[n][4]];
      pen.beginPath();
      pen.arc(x, y, radius(points[n][3]), 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 3;
    pen.strokeStyle = colors[9];
    pen.fillStyle = colors[10];
    const taken = [];
    for (const point of [mark, ...points.slice(0, 150)].filter(Boolean)) {
      const [x, y] = place(point), text = nameOf({ title: point[5], id: point[0] }).replace(/^(.{26}).{2,}$/u, "$1…"), w = pen.measureText(text).width, left = x + radius(point[3]) + 3;
      if (left < 0 || left + w > width || y < 10 || y > height - 6 || taken.length > 26) continue;
      if (taken.some(([a, b, c]) => left < c && left + w > a && Math.abs(y - b) < 15)) continue;
      taken.push([left, y, left + w]);
      pen.strokeText(text, left, y + 4);
      pen.fillText(text, left, y + 4);
    }
    for (const point of [mark, under].filter(Boolean)) {
      const [x, y] = place(point);
      pen.strokeStyle = colors[10];
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, radius(point[3]) + 3, 0, 7);
      pen.stroke();
    }
  }

  function readColors() {
    const style = getComputedStyle(document.documentElement);
    colors = [...Array.from({ length: 9 }, (_, n) => style.getPropertyValue(`--c${n}`).trim()), style.getPropertyValue("--card").trim(), style.getPropertyValue("--ink").trim()];
  }

  async function load() {
    asked?.abort();
    asked = new AbortController();
    const dx = look.size / 2, dy = dx;
    try {
      const found = await get("/v1/page/map", { x0: look.x - dx, x1: look.x + dx, y0: look.y - dy, y1: look.y + dy }, asked.signal);
      points = found.points;
      const names = found.categories;
      legend.replaceChildren(...(names.length ? [...names, "another"] : []).map((name, n) => h("li", {}, h("span", { class: `dot c${n === names.length ? 8 : n}` }), name)));
      told.textContent = found.n > points.length ? `${plural(found.n, "item")} in view, of which the ${count(points.length)} most chosen are drawn; zoom in for the others.` : `${plural(found.n, "item")} in view.`;
      inView.replaceChildren(...points.slice(0, 12).map((each) => h("li", { class: "line" }, itemLink({ id: each[0], title: each[5] }), h("span", { class: "soft small num" }, count(each[3])))));
      draw();
    } catch (error) {
      if (error.name !== "AbortError") told.textContent = error.message;
    }
  }

  function change() {
    look.size = Math.min(1.4, Math.max(0.004, look.size));
    look.x = Math.min(1, Math.max(0, look.x));
    look.y = Math.min(1, Math.max(0, look.y));
    draw();
    clearTimeout(timer);
    timer = setTimeout(load, 120);
  }

  function zoom(factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) {
    const { width, height, ux, uy } = box();
    const x = (px - width / 2) / ux, y = (py - height / 2) / uy, before = look.size;
    look.size = Math.min(1.4, Math.max(0.004, look.size / factor));
    look.x += x * (1 - look.size / before);
    look.y += y * (1 - look.size / before);
    change();
  }

  const find = (px, py) => points.find((each) => {
    const [x, y] = place(each);
    return Math.hypot(x - px, y - py) <= radius(each[3]) + 3;
  });

  function point(px, py) {
    under = find(px, py) ?? null;
    tip.hidden = !under;
    canvas.style.cursor = under ? "pointer" : "grab";
    if (under) {
      tip.textContent = `${nameOf({ title: under[5], id: under[0] })} · ${count(under[3])}`;
      tip.style.left = `${Math.min(px + 12, canvas.clientWidth - tip.offsetWidth - 4)}px`;
      tip.style.top = `${py + 14}px`;
    }
    draw();
  }

  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId), now = [event.offsetX, event.offsetY];
    if (!last) return point(...now);
    const other = [...fingers.entries()].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, now);
    moved += Math.hypot(now[0] - last[0], now[1] - last[1]);
    if (other) return zoom(Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(1, Math.hypot(last[0] - other[0], last[1] - other[1])), ...other);
    const { ux, uy } = box();
    look.x -= (now[0] - last[0]) / ux;
    look.y -= (now[1] - last[1]) / uy;
    change();
  });
  const lift = (event) => {
    fingers.delete(event.pointerId);
    if (event.type === "pointerup" && moved < 5) {
      const found = find(event.offsetX, event.offsetY);
      if (found) location.hash = itemPath(found[0]);
    }
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => point(-99, -99));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = look.size / 8, moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) {
      look.x += moves[event.key][0];
      look.y += moves[event.key][1];
      change();
    } else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else return;
    event.preventDefault();
  });
  const reset = () => {
    Object.assign(look, { x: 0.5, y: 0.5, size: 1.04 });
    change();
  };
  const tools = h("div", { class: "tools" }, h("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(1.6) }, "+"), h("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 1.6) }, "−"), h("button", { type: "button", "aria-label": "Show all", onclick: reset }, "⤢"));

  async function shown() {
    readColors();
    const wanted = query.get("item");
    if (wanted) {
      const found = await get("/v1/page/place", { item: wanted }).catch((error) => (say(error.message), null));
      if (found) {
        mark = found;
        Object.assign(look, { x: found[1], y: found[2], size: 0.15 });
      }
    }
    const renew = () => (isOver() ? document.removeEventListener("theme", renew) : (readColors(), draw()));
    document.addEventListener("theme", renew);
    const watch = new ResizeObserver(() => (isOver() ? watch.disconnect() : draw()));
    watch.observe(canvas);
    await load();
  }

  return { title, shown, body: [...head, h("div", { class: "map" }, canvas, tip, tools), legend, told, h("section", { class: "card" }, h("h2", {}, "Most chosen in view"), inView)] };
}
