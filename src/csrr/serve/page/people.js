// The start, a person, somebody new, an item.
import { bar, card, count, day, get, h, itemLink, itemPath, make, nameOf, percent, personPath, plural, post, ranked, say, short } from "./core.js";
import { makeSearch } from "./search.js";

const facts = (pairs) => h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== "").map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
const personLink = (each) => h("a", { href: personPath(each.id) }, `Person ${each.id}`);
const buildPath = (ids) => `#/build?${ids.map((id) => `item=${encodeURIComponent(id)}`).join("&")}`;
const SUSPECT = 0.5;

export async function showHome() {
  const told = await get("/v1/page/home");
  return { title: "Start", body: [
    h("h1", {}, "What does this model see?"),
    h("p", { class: "soft" }, `A ${told.kind} of ${plural(told.n_events, "choice")} by ${plural(told.n_users, "person", "people")} among ${plural(told.n_items, "item")}. Look somebody up, or pick a few titles and see what follows from them.`),
    h("div", { class: "grid half" },
      card("Begin with a person", h("p", { class: "soft small" }, "Some of them, by chance. Anybody's id can be typed above; for people who have a certain title, open it and see who chose it."),
        h("ul", { class: "rows" }, told.people.map((each) => h("li", { class: "line" }, personLink(each), h("span", { class: "soft small" }, plural(each.n, "choice")))))),
      card("Begin with an item", h("p", { class: "soft small" }, "The most chosen ones."),
        h("ul", { class: "rows" }, told.popular.map((each) => h("li", { class: "line" }, itemLink(each), h("span", { class: "soft small num" }, count(each.n)))))),
      card("Build somebody new", h("p", {}, "Pick titles, and the list changes as you click."), h("p", {}, h("a", { class: "button", href: "#/build" }, "Build"))),
      card("The whole catalog", h("p", {}, "Items chosen by the same people lie together."), h("p", {}, h("a", { class: "button", href: "#/map" }, "Open the map"))))] };
}

// Recommended items with their reasons; `before` are the ids of the last list, to show what moved.
function listRecommended(list, before = null) {
  if (!list.length) return h("p", { class: "soft" }, "Nothing is worth recommending.");
  const most = Math.max(...list.map((each) => Math.max(Math.abs(each.score), each.common ?? 0)), 1e-12);
  const isSplit = list.some((each) => each.common !== undefined);
  const rows = list.map((each, n) => {
    const was = before ? before.indexOf(each.item) : n, isNew = before && was < 0;
    const moved = !before || was === n ? null : isNew ? h("span", { class: "moved" }, " new") : h("span", { class: was > n ? "moved" : "moved down" }, was > n ? ` ▲ ${was - n}` : ` ▼ ${n - was}`);
    const common = Math.max(0, Math.min(each.common ?? each.score, each.score)), near = each.neighbors ?? 0;
    const label = each.common === undefined ? `score ${short(each.score)}` : `score ${short(each.score)}: common taste ${short(each.common)}, neighbors ${short(each.neighbors)}`;
    return h("li", { class: isNew ? "fresh" : null },
      h("div", { class: "line" },
        h("span", {}, h("span", { class: "rank" }, String(n + 1)), itemLink(each), moved),
        h("span", { class: "soft small num" }, each.probability !== undefined ? percent(each.probability) : short(each.score))),
      bar([[each.common === undefined ? "accent" : "common", common / most], near < 0 ? ["against", -near / most] : ["near", near / most]], label),
      (each.because ?? []).length ? h("div", { class: "why" }, "because of", each.because.map((why) => h("a", { class: "chip", href: itemPath(why.item), title: `adds ${short(why.amount)}${why.neighbors ? `, of which ${short(why.neighbors)} as a neighbor` : ""}` }, (why.neighbors ?? 0) > why.amount / 3 ? h("span", { class: "dot near" }) : null, why.title ?? `Item ${why.item}`))) : null);
  });
  return [isSplit ? h("ul", { class: "legend" }, h("li", {}, h("span", { class: "dot common" }), "common taste"), h("li", {}, h("span", { class: "dot near" }), "neighbors: item to item"), list.some((each) => each.neighbors < 0) ? h("li", {}, h("span", { class: "dot against" }), "neighbors speak against it") : null) : null, h("ol", { class: "rows" }, rows)];
}

const STATUS = {
  unknown: "The model does not know this person, so these are popular items.",
  "no history": "This person has no choices yet, so these are popular items.",
  history: "With what happened since the model was fitted.",
};

export async function showPerson(id, { isOver, again }) {
  const told = await get("/v1/page/person", { user: id });
  const isOwn = (each) => each.kind === "own taste", isSuspect = (each) => (each.suspect ?? 0) >= SUSPECT || each.kind === "isolated";
  const kinds = [["All", () => true], ["Their own taste", isOwn], ["Suspects", isSuspect]];
  const list = h("ul", { class: "rows" });
  const show = (keep, most = 15) => {
    const kept = told.history.filter(keep);
    list.replaceChildren(...kept.slice(0, most).map((each) => h("li", {}, h("div", { class: "line" }, h("span", {}, itemLink(each), " ",
      isOwn(each) ? h("span", { class: "tag own", title: `Common taste does not explain ${percent(each.own)} of this choice, and it is like others of theirs` }, "own taste") : null, " ",
      isSuspect(each) ? h("span", { class: "tag bad", title: "What others choose does not lead here" }, each.suspect >= SUSPECT ? `suspect ${percent(each.suspect)}` : "isolated") : null),
      h("span", { class: "soft small num" }, each.time ? day(each.time) : `${count(each.n)} chose it`)))));
    if (!kept.length) list.replaceChildren(h("li", { class: "soft" }, "None."));
    if (kept.length > most) list.append(h("li", {}, h("button", { type: "button", class: "quiet", onclick: () => show(keep, Infinity) }, `Show all ${count(kept.length)}`)));
  };
  show(() => true);
  let above;
  if (told.noise === "ready") {
    above = h("div", { class: "tabs", role: "group", "aria-label": "Which choices" }, kinds.map(([name, keep], n) => h("button", { type: "button", "aria-pressed": String(n === 0), onclick: (event) => {
      for (const each of event.target.parentElement.children) each.setAttribute("aria-pressed", String(each === event.target));
      show(keep);
    } }, `${name} (${told.history.filter(keep).length})`)));
  } else {
    const status = h("p", { class: "soft small", role: "status" }, "Which of these are their own taste, and which look like accidents? The model is asked once, for everybody.");
    const button = h("button", { type: "button", class: "quiet", onclick: async () => {
      button.disabled = true;
      status.textContent = "Looking; this can take minutes for a large model ...";
      try {
        await make("noise", isOver);
        if (!isOver()) again();
      } catch (error) {
        status.textContent = error.message;
      }
    } }, "Find their own taste, and suspects");
    above = h("div", { class: "notice" }, status, button);
  }
  const recommended = h("section", { class: "card" }, h("h2", {}, "Recommended, and why"), told.status in STATUS ? h("p", { class: "notice small" }, STATUS[told.status]) : null, listRecommended(told.recommended));
  const start = told.history.slice(0, 20).map((each) => each.item).reverse();
  return { title: `Person ${id}`, body: [
    h("h1", {}, `Person ${told.user}`),
    facts([["choices", count(told.n)], ["since the model was fitted", told.since ? count(told.since) : null]]),
    h("div", { class: "grid build" },
      card(told.n > told.history.length ? `Their latest ${count(told.history.length)} choices` : "What they chose", above, list,
        h("p", {}, h("a", { href: buildPath(start) }, "Try changes to this history"))),
      recommended,
      told.similar.length ? card("People like them", ranked(told.similar, personLink, (each) => plural(each.n, "choice"))) : null)] };
}

export async function showBuild(_, { query }) {
  const picked = query.getAll("item").slice(0, 50);
  const titles = new Map();
  let before = null, asked = null;
  const chips = h("ul", { class: "chips", "aria-label": "Picked so far, the newest last" }), result = h("div", { "aria-live": "off" }), popular = h("ul", { class: "chips", "aria-label": "Popular titles to pick" });
  const box = h("div", { class: "search" });

  function remember() {
    const address = picked.length ? buildPath(picked) : "#/build";
    history.replaceState(null, "", address);
  }

  async function change() {
    remember();
    chips.replaceChildren(...picked.map((id) => {
      const name = titles.get(String(id)) ?? `Item ${id}`;
      return h("li", { class: "chip" }, name, h("button", { type: "button", "aria-label": `Take ${name} away`, onclick: () => {
        picked.splice(picked.indexOf(id), 1);
        change();
      } }, "×"));
    }));
    asked?.abort();
    asked = new AbortController();
    try {
      const told = await post("/v1/page/build", { history: picked }, asked.signal);
      result.replaceChildren(...[picked.length ? null : h("p", { class: "soft" }, "Nothing is picked yet, so these are popular items."), listRecommended(told.recommended, before)].flat().filter(Boolean));
      before = told.recommended.map((each) => each.item);
      say(picked.length ? `The list has changed; first is ${told.recommended.length ? nameOf(told.recommended[0]) : "nothing"}` : "");
    } catch (error) {
      if (error.name !== "AbortError") result.replaceChildren(h("p", { class: "notice bad", role: "alert" }, error.message));
    }
  }

  function pick(each) {
    titles.set(String(each.id), nameOf(each));
    if (!picked.map(String).includes(String(each.id)) && picked.length < 50) picked.push(each.id);
    change();
  }

  makeSearch(box, { label: "Search for a title to pick", hint: "Pick a title", choose: pick, withPeople: false });
  const { items } = await get("/v1/page/search", { k: 16 });
  popular.replaceChildren(...items.map((each) => h("li", {}, h("button", { type: "button", class: "quiet", onclick: () => pick(each) }, nameOf(each)))));
  await Promise.all(picked.map(async (id) => {
    const found = await get("/v1/page/search", { q: id, k: 1 }).catch(() => ({ items: [] }));
    const same = found.items.find((each) => String(each.id) === String(id));
    if (same) titles.set(String(id), nameOf(same));
  }));
  await change();
  return { title: "Build somebody new", body: [
    h("h1", {}, "Build somebody new"), h("p", { class: "soft" }, "Pick what they have chosen, in order, the newest last. Reasons say which picks a place would be lost without."),
    h("div", { class: "grid build" }, card("Picked", box, chips), card("Recommended to them", result), card("Popular titles", popular))] };
}

export async function showItem(id) {
  const told = await get("/v1/page/item", { item: id });
  const name = nameOf(told);
  return { title: name, body: [
    h("h1", {}, name),
    facts([["id", String(told.id)], ["chosen by", plural(told.n, "person", "people")], ["place by popularity", count(told.rank)], ...Object.entries(told.facts).map(([key, value]) => [key, String(value)])]),
    h("p", {}, h("a", { href: buildPath([told.id]) }, "Build somebody who has only this"), " · ", h("a", { href: `#/map?item=${encodeURIComponent(told.id)}` }, "Find it on the map")),
    h("div", { class: "grid half" },
      card("Nearest to it", h("p", { class: "soft small" }, "By what the model has learned."), ranked(told.near, itemLink)),
      h("div", { class: "grid" },
        card("Who chooses it", h("p", { class: "small" }, `Half of them have ${plural(told.median_events, "choice")} or more; of all people, half have ${count(told.median_events_of_all)} or more.`),
          h("ul", { class: "rows" }, told.choosers.map((each) => h("li", { class: "line" }, personLink(each), h("span", { class: "soft small" }, plural(each.n, "choice")))))),
        card("They also choose, more often than others do", ranked(told.together, itemLink, (each) => `${short(Math.round(10 * each.score) / 10)} times`))),
      told.company.length ? h("div", { class: "card wide" }, h("h2", {}, "Its factors' company"), h("p", { class: "soft small" }, "The directions of taste that it is mostly made of, and what goes furthest along each."),
        h("div", { class: "grid half" }, told.company.map((each) => h("section", {}, h("h3", { class: "small" }, `Direction ${each.number}: ${percent(each.share)} of it`), h("ul", { class: "chips" }, each.items.map((one) => h("li", {}, h("a", { class: "chip", href: itemPath(one.id) }, nameOf(one))))))))) : null)] };
}
