// Small charts, drawn as SVG. Each says in words what it shows.
import { short, svg } from "./core.js";

const W = 560, H = 240, LEFT = 52, RIGHT = 12, TOP = 26, BOTTOM = 34;

function scale([low, high], [from, to], isLog) {
  const f = isLog ? Math.log10 : (x) => x;
  const span = f(high) - f(low) || 1;
  return (x) => from + ((f(x) - f(low)) / span) * (to - from);
}

function ticks([low, high], isLog) {
  if (isLog) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), step = Math.max(1, Math.ceil((last - first) / 5));
    return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, n) => 10 ** (first + n * step));
  }
  const rough = (high - low) / 4 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + 1e-9 * step; x += step) found.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return found;
}

export function frame({ label, x, y, xName, yName, xLog = false, yLog = false }) {
  const toX = scale(x, [LEFT, W - RIGHT], xLog), toY = scale(y, [H - BOTTOM, TOP], yLog);
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
  for (const each of ticks(y, yLog)) {
    drawing.append(svg("line", { class: "grid-line", x1: LEFT, x2: W - RIGHT, y1: toY(each), y2: toY(each) }));
    drawing.append(svg("text", { x: LEFT - 6, y: toY(each) + 4, "text-anchor": "end" }, short(each)));
  }
  for (const each of ticks(x, xLog)) drawing.append(svg("text", { x: toX(each), y: H - BOTTOM + 16, "text-anchor": "middle" }, short(each)));
  drawing.append(svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: H - BOTTOM, y2: H - BOTTOM }));
  drawing.append(svg("text", { x: (W + LEFT) / 2, y: H - 4, "text-anchor": "middle" }, xName));
  drawing.append(svg("text", { x: LEFT - 40, y: 12 }, yName));
  return { drawing, toX, toY };
}

export function line(points, options) {
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const made = frame({ x: [Math.min(...xs), Math.max(...xs)], y: [options.yLog ? Math.min(...ys) : 0, Math.max(...ys) * 1.05 || 1], ...options });
  const path = points.map(([x, y], n) => `${n ? "L" : "M"}${made.toX(x).toFixed(1)} ${made.toY(y).toFixed(1)}`).join("");
  made.drawing.append(svg("path", { class: "main", d: path }));
  if (points.length < 40) made.drawing.append(...points.map(([x, y]) => svg("circle", { class: "mark", cx: made.toX(x), cy: made.toY(y), r: 3 })));
  return made;
}

export function columns(values, options) {
  const made = frame({ x: [0.5, values.length + 0.5], y: [0, Math.max(...values) * 1.05 || 1], ...options });
  const width = Math.max(0.6, (0.8 * (W - LEFT - RIGHT)) / values.length);
  values.forEach((value, n) => made.drawing.append(svg("rect", { class: "column", x: made.toX(n + 1) - width / 2, y: made.toY(value), width, height: Math.max(0, H - BOTTOM - made.toY(value)) })));
  return made;
}
