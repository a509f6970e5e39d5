// The model: its certificate, how it was fitted and chosen, and what its probabilities are worth at a cost.
import { card, count, get, h, percent, short, svg } from "./core.js";
import { columns, frame, line } from "./charts.js";

function tellTried(told) {
  if (!told.tried.length) return told.note ? h("p", {}, told.note) : h("p", { class: "soft" }, "Nothing was searched: the settings were given.");
  const names = Object.keys(told.tried[0]).filter((name) => told.tried.some((row) => row[name] !== told.tried[0][name]) || name === "ndcg");
  const order = told.tried.map((row, n) => [row, n]).sort((a, b) => b[0].ndcg - a[0].ndcg || a[1] - b[1]);
  const table = (rows) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "What was tried" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "tried"), names.map((name) => h("th", { scope: "col" }, name.replaceAll("_", " "))))),
    h("tbody", {}, rows.map(([row, n]) => h("tr", { class: n === told.taken ? "taken" : null }, h("td", {}, n === told.taken ? "taken" : String(n + 1)), names.map((name) => h("td", { class: "num" }, short(row[name]))))))));
  return [h("p", { class: "soft small" }, told.note), table(order.filter(([, n], place) => place < 8 || n === told.taken)), order.length > 8 ? h("details", {}, h("summary", {}, `All ${order.length}`), table(order)) : null];
}

function tellCosts(curve, home) {
  const total = curve.n_positives.reduce((a, b) => a + b, 0) / curve.label_rate;
  const sums = { shown: [0], hits: [0] };
  curve.n_cells.forEach((n, at) => {
    sums.shown.push(sums.shown[at] + n);
    sums.hits.push(sums.hits[at] + curve.n_positives[at] / curve.label_rate);
  });
  const made = frame({ label: "Share of choices found, by the number of items shown to a person", x: [1e-2, Math.max(1, sums.shown.at(-1) / home.n_users)], y: [0, 1], xName: "items shown to a person", yName: "share of what they choose", xLog: true });
  const at = (n) => Math.max(1e-2, sums.shown[n] / home.n_users);
  made.drawing.append(svg("path", { class: "main", d: sums.shown.map((_, n) => `${n ? "L" : "M"}${made.toX(at(n)).toFixed(1)} ${made.toY(sums.hits[n] / total).toFixed(1)}`).join("") }));
  const dot = svg("circle", { class: "other", r: 7, "stroke-width": 2 });
  made.drawing.append(dot);
  const tiles = h("div", { class: "tiles", "aria-live": "polite" }), words = h("p", {});
  const start = curve.threshold ? 1 / curve.threshold - 1 : 20;
  const slider = h("input", { type: "range", min: -1, max: 4, step: 0.01, value: Math.log10(Math.max(0.1, start)), id: "cost" });
  function show() {
    const ratio = 10 ** Number(slider.value), threshold = 1 / (1 + ratio);
    const n = curve.probability.filter((each) => each > threshold).length;
    const shown = sums.shown[n], hits = sums.hits[n];
    const cost = (total - hits) * ratio + (shown - hits), nothing = total * ratio;
    slider.setAttribute("aria-valuetext", `a miss costs ${short(Number(ratio.toPrecision(3)))} false alarms`);
    words.replaceChildren("A miss costs ", h("strong", {}, short(Number(ratio.toPrecision(3)))), " false alarms, so an item pays from a probability of ", h("strong", {}, percent(threshold)), " on.");
    const tile = (value, name) => h("div", {}, h("span", { class: "big" }, value), h("span", { class: "small soft" }, name));
    tiles.replaceChildren(tile(short(Number((shown / home.n_users).toPrecision(3))), "items shown to a person"), tile(percent(total ? hits / total : 0), "of what they choose is shown"), tile(shown ? percent(hits / shown) : "none", "of what is shown is chosen"), tile(nothing ? `−${percent(Math.max(0, 1 - cost / nothing))}` : "0", "cost, beside showing nothing"));
    dot.setAttribute("cx", made.toX(at(n)));
    dot.setAttribute("cy", made.toY(total ? hits / total : 0));
  }
  slider.addEventListener("input", show);
  show();
  return h("div", { class: "grid half" }, h("div", {}, h("label", { for: "cost" }, "What a miss costs, beside a false alarm"), slider, words, tiles, h("p", { class: "soft small" }, "Counted on the held-out events that the calibration was learned from.")), made.drawing);
}

function tellCurve(curve) {
  const points = curve.probability.map((said, n) => [said, curve.n_positives[n] / curve.label_rate / Math.max(1, curve.n_cells[n]), curve.n_cells[n]]).filter(([said, rate]) => said > 0 && rate > 0);
  if (points.length < 2) return h("p", { class: "soft" }, "There are too few positives for a curve.");
  const low = Math.min(...points.map(([a, b]) => Math.min(a, b))), high = Math.min(1, Math.max(...points.map(([a, b]) => Math.max(a, b))) * 1.2);
  const made = frame({ label: "Predicted and observed rates: points on the line are as probable as predicted", x: [low, high], y: [low, high], xName: "predicted", yName: "observed", xLog: true, yLog: true });
  made.drawing.append(svg("line", { class: "grid-line", x1: made.toX(low), y1: made.toY(low), x2: made.toX(high), y2: made.toY(high) }));
  for (const [said, rate] of points) made.drawing.append(svg("circle", { class: "mark", cx: made.toX(said), cy: made.toY(rate), r: 3.5 }));
  return made.drawing;
}

export async function showModel() {
  const [told, home, info] = await Promise.all([get("/v1/page/model"), get("/v1/page/home"), get("/v1/model")]);
  const steps = told.steps.filter(([, , gap]) => gap > 0), cards = [];
  const names = new Set([...Object.keys(told.params), ...Object.keys(told.settled)]);
  if (told.certificate) {
    const proof = told.certificate;
    cards.push(card("Certificate", h("p", {}, h("strong", {}, told.claim)), proof.has_neighbors ? h("p", { class: "soft small" }, "The neighbors are not covered.") : null,
      h("dl", { class: "facts" }, [["status", proof.status], ["rank", proof.rank], ["iterations", proof.iterations], ["primal", proof.primal], ["dual", proof.dual], ["seconds", proof.seconds]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : short(value)))))));
  }
  if (steps.length > 1) cards.push(card("Convergence", line(steps.map(([iteration, , gap]) => [iteration, gap]), { label: `The estimated gap over ${steps.length} iterations, down to ${short(steps.at(-1)[2])}`, xName: "iteration", yName: "gap to the optimum, as estimated on the way", yLog: true }).drawing, h("p", { class: "soft small" }, "The certificate is computed once, at the end, from all directions; estimates on the way look at a few.")));
  if (told.singular_values.length) cards.push(card("Singular values", columns(told.singular_values, { label: `${told.singular_values.length} singular values, from ${short(told.singular_values[0])} to ${short(told.singular_values.at(-1))}`, xName: "direction", yName: "size" }).drawing));
  else if (told.certificate) cards.push(card("Singular values", h("p", { class: "soft" }, "They are computed with the map: ", h("a", { href: "#/map" }, "open it once"), ".")));
  if (told.calibration) cards.push(card("Calibration", tellCurve(told.calibration)), h("section", { class: "card wide" }, h("h2", {}, "Costs and the threshold"), tellCosts(told.calibration, home)));
  else cards.push(card("Costs and probabilities", h("p", {}, "This model has no probabilities yet: ", h("code", {}, "csrr calibrate"), " learns them from held-out events, and then a cost moves a threshold here."), told.costs ? h("p", { class: "soft small" }, told.costs) : null));
  if (told.certificate || told.tried.length) cards.push(h("section", { class: "card wide" }, h("h2", {}, "Chosen, and what else was tried"), tellTried(told)));
  const value = (name) => (told.settled[name] === undefined ? tellValue(told.params[name]) : `${tellValue(told.settled[name])}, chosen`);
  cards.push(h("section", { class: "card wide" }, h("h2", {}, "Parameters"), h("ul", { class: "rows columns" }, [...names].map((name) => h("li", { class: "line small" }, h("span", {}, name), h("span", { class: told.settled[name] === undefined ? "soft" : null }, value(name)))))));
  return { title: "The model", body: [
    h("h1", {}, `The model: ${told.kind}`),
    h("dl", { class: "facts" }, [["people", home.n_users], ["items", home.n_items], ["choices", home.n_events]].map(([name, n]) => h("div", {}, h("dt", {}, name), h("dd", {}, count(n)))), h("div", {}, h("dt", {}, "file"), h("dd", {}, info.path)), h("div", {}, h("dt", {}, "checksum"), h("dd", {}, info.model))),
    info.problem ? h("p", { class: "notice bad" }, `A newer file is not served: ${info.problem}`) : null,
    h("div", { class: "grid half" }, cards)].filter(Boolean) };
}

const tellValue = (value) => (value === null ? "none" : typeof value === "number" ? short(value) : typeof value === "object" ? JSON.stringify(value).slice(0, 60) : String(value));
