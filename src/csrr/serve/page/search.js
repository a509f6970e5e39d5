// A field with suggestions: items by title or id, and people by id. Keys: arrows, Enter, Escape.
import { count, get, h, nameOf, plural, say } from "./core.js";

let number = 0;

export function makeSearch(place, { label, hint, choose, withPeople = true }) {
  const id = `options-${++number}`;
  const input = h("input", { type: "search", role: "combobox", "aria-label": label, "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: hint, maxlength: 200 });
  const list = h("ul", { class: "options", role: "listbox", id, "aria-label": label, hidden: true });
  let found = [], at = -1, asked = null, timer = 0;

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    at = -1;
  }

  function mark(place) {
    at = place;
    [...list.children].forEach((each, n) => each.setAttribute("aria-selected", String(n === at)));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
    list.children[at].scrollIntoView({ block: "nearest" });
  }

  function take(each) {
    close();
    input.value = "";
    choose(each);
  }

  function show() {
    list.replaceChildren(...found.map((each, n) => h("li", { role: "option", id: `${id}-${n}`, "aria-selected": "false", onpointerdown: (event) => event.preventDefault(), onclick: () => take(each) },
      h("span", { class: "name" }, each.kind === "person" ? `Person ${each.id}` : nameOf(each)),
      h("span", { class: "soft small" }, count(each.n)))));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    if (!found.length && input.value.trim()) {
      list.replaceChildren(h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing has this in its title, or as its id."));
      list.hidden = false;
    }
    say(input.value.trim() ? plural(found.length, "suggestion") : "");
    mark(-1);
  }

  async function look() {
    asked?.abort();
    asked = new AbortController();
    try {
      const { items, users } = await get("/v1/page/search", { q: input.value, k: 8 }, asked.signal);
      const people = withPeople ? users.map((each) => ({ ...each, kind: "person" })) : [];
      found = [...items.map((each) => ({ ...each, kind: "item" })), ...people];
      if (document.activeElement === input) show();
    } catch (error) {
      if (error.name !== "AbortError") {
        found = [];
        say(error.message);
      }
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, 90);
  });
  input.addEventListener("focus", () => input.value.trim() && look());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", async (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) await look();
      const n = found.length;
      if (n) mark(event.key === "ArrowDown" ? (at + 1) % n : (at - 1 + n) % n);
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      const wanted = at;
      if (wanted < 0) await look();
      if (found.length) take(found[Math.max(0, wanted)]);
    }
  });
  place.replaceChildren(input, list);
  return input;
}
