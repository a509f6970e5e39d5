// The views by address, and what frames them.
import { card, h, itemPath, personPath, say } from "./core.js";
import { makeSearch } from "./search.js";
import { showBuild, showHome, showItem, showPerson } from "./people.js";
import { showMap } from "./map.js";
import { showModel } from "./model.js";

const VIEWS = { "": showHome, person: showPerson, item: showItem, build: showBuild, map: showMap, model: showModel };
let view = { isOver: true };

async function go() {
  view.isOver = true;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const main = document.getElementById("main");
  if (location.hash === "#main") return main.focus();
  const mine = (view = { isOver: false });
  for (const link of document.querySelectorAll("#nav a")) {
    link.getAttribute("href") === `#/${name}` ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const slow = setTimeout(() => mine.isOver || main.replaceChildren(h("p", { class: "soft", role: "status" }, "One moment ...")), 250);
  let found;
  try {
    const show = VIEWS[name];
    if (!show) throw new Error("There is no such view.");
    const text = rest.map(decodeURIComponent).join("/");
    found = await show(text, { isOver: () => mine.isOver, query: new URLSearchParams(query), again: go });
  } catch (error) {
    found = { title: "Not found", body: [h("h1", {}, "This cannot be shown"), card("Why", h("p", { class: "notice bad", role: "alert" }, error.message), h("p", {}, h("a", { href: "#/" }, "Back to the start")))] };
  }
  clearTimeout(slow);
  if (mine.isOver) return;
  main.replaceChildren(...found.body);
  document.title = `${found.title} · csrr`;
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
  say(found.title);
  found.shown?.();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event("theme"));
}

setTheme(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  setTheme(next);
});
const search = makeSearch(document.getElementById("search"), {
  label: "Search for a title, or the id of a person",
  hint: "A title, or a person's id",
  choose: (each) => (location.hash = each.kind === "person" ? personPath(each.id) : itemPath(each.id)),
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
    event.preventDefault();
    search.focus();
  }
});
addEventListener("hashchange", go);
go();
