// @ts-check
"use strict";

/** Whether a key is meant for a field. @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Search by `/` or Ctrl-K. */
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("[data-search], .search input");
  if (!(search instanceof HTMLInputElement)) return;
  const slash = event.key === "/" && !isTyping(event.target) && !event.ctrlKey && !event.metaKey;
  const command = event.key === "k" && (event.ctrlKey || event.metaKey);
  if (slash || command) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});

/** The rows of a list by `j` and `k`, and the record of a row by Enter. */
document.addEventListener("keydown", (event) => {
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey || !/^[jkx]$/.test(event.key)) return;
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-rows] [data-record]")]);
  const focused = document.activeElement;
  const place = links.findIndex((link) => link === focused || (focused && link.closest("tr")?.contains(focused)));
  if (event.key === "x") {
    const box = links[place]?.closest("tr")?.querySelector("input[type=checkbox]");
    if (box instanceof HTMLInputElement) box.click();
    return;
  }
  const next = event.key === "j" ? Math.min(place + 1, links.length - 1) : Math.max(place - 1, 0);
  links[next]?.focus();
});

/** Ctrl-Enter sends the form of the field. */
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target instanceof HTMLTextAreaElement) {
    event.target.form?.requestSubmit();
  }
});

/** A form is sent once. */
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (form.method !== "post") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "true";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) form.removeAttribute("data-sent");
});

/** Copies the code beside a button. */
document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-copy]") : null;
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement?.querySelector("code")?.textContent ?? "");
  button.textContent = "Copied";
});

/** Selects all rows of a list, and applies filters when they change. */
document.addEventListener("change", (event) => {
  const field = event.target;
  if (field instanceof HTMLInputElement && field.matches("[data-all]")) {
    for (const box of document.querySelectorAll("[data-rows] input[type=checkbox]")) {
      if (box instanceof HTMLInputElement) box.checked = field.checked;
    }
  }
  if (field instanceof HTMLSelectElement && field.matches("form[data-filter] select")) field.form?.requestSubmit();
});

/** Shows what works only with this script. @param {ParentNode} part */
function unhide(part) {
  for (const element of part.querySelectorAll("[data-all], button[data-copy]")) {
    if (element instanceof HTMLElement && (element.matches("[data-all]") || navigator.clipboard)) element.hidden = false;
  }
}
unhide(document);

/** Tells the server the time zone of the browser, for people who have not set another. */
{
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zone = `time_zone=${name}`;
  if (/^[\w+/-]+$/.test(name) && !document.cookie.split("; ").includes(zone)) {
    document.cookie = `${zone}; path=/; max-age=31536000; samesite=strict${location.protocol === "https:" ? "; secure" : ""}`;
  }
}

/** What is open closes with Escape or a click beside it. */
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll("details.curl[open], details.menu-box[open]")) {
    open.removeAttribute("open");
    open.querySelector("summary")?.focus();
  }
});
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.curl[open], details.menu-box[open]")) {
    if (event.target instanceof Node && !open.contains(event.target)) open.removeAttribute("open");
  }
});

/** Suggestions while somebody types into the search. @param {HTMLInputElement} field @param {HTMLElement} list */
function suggest(field, list) {
  let asked = 0;
  let waiting = 0;
  let chosen = -1;
  const options = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=option]")]);
  const close = () => {
    list.hidden = true;
    chosen = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const choose = (/** @type {number} */ place) => {
    const all = options();
    chosen = Math.max(-1, Math.min(place, all.length - 1));
    all.forEach((option, at) => option.setAttribute("aria-selected", String(at === chosen)));
    if (chosen >= 0) field.setAttribute("aria-activedescendant", all[chosen]?.id ?? "");
    else field.removeAttribute("aria-activedescendant");
  };
  const ask = async () => {
    const text = field.value.trim();
    const mine = ++asked;
    if (text.length < 2) return close();
    const answer = await fetch(`/search/suggest?q=${encodeURIComponent(text)}`, { headers: { accept: "text/html" } });
    if (mine !== asked || !answer.ok || answer.redirected) return;
    list.innerHTML = await answer.text();
    chosen = -1;
    list.hidden = options().length === 0;
    field.setAttribute("aria-expanded", String(!list.hidden));
  };
  for (const [name, value] of [["role", "combobox"], ["aria-controls", list.id], ["aria-autocomplete", "list"], ["aria-expanded", "false"]]) {
    field.setAttribute(name ?? "", value ?? "");
  }
  field.addEventListener("input", () => {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => void ask(), 150);
  });
  field.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      location.assign(options()[chosen]?.dataset.path ?? "/");
    } else if (event.key === "Escape") {
      close();
    }
  });
  list.addEventListener("mousedown", (event) => {
    const option = event.target instanceof Element ? event.target.closest("[role=option]") : null;
    if (option instanceof HTMLElement) location.assign(option.dataset.path ?? "/");
  });
  field.addEventListener("blur", close);
}
{
  const field = document.querySelector("[data-search]");
  const list = document.getElementById("suggestions");
  if (field instanceof HTMLInputElement && list) suggest(field, list);
}

/** Whether the reader has begun to write, to choose or to read something that a new page would take away. @param {HTMLElement} main */
function isInUse(main) {
  const isChanged = (/** @type {Element} */ field) => {
    if (field instanceof HTMLInputElement && /^(checkbox|radio)$/.test(field.type)) return field.checked !== field.defaultChecked;
    if (field instanceof HTMLSelectElement) {
      const first = [...field.options].find((option) => option.defaultSelected) ?? field.options[0];
      return first !== undefined && !first.selected;
    }
    return (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) && field.value !== field.defaultValue;
  };
  const focused = document.activeElement;
  return (
    (main.contains(focused) && isTyping(focused)) ||
    main.querySelector("details[open]") !== null ||
    [...main.querySelectorAll("input, select, textarea")].some(isChanged)
  );
}

/** Keeps what the page shows up to date while somebody looks at it. @param {HTMLElement} main */
function follow(main) {
  /** @type {EventSource | undefined} */
  let source;
  let waiting = 0;
  let shown = 0;
  const kinds = (main.dataset.live ?? "").split(" ").map((kind) => `types=${encodeURIComponent(kind)}`).join("&");
  const tell = () => {
    if (document.querySelector(".toast")) return;
    const toast = document.createElement("p");
    const again = document.createElement("a");
    toast.className = "toast";
    toast.setAttribute("role", "status");
    again.href = location.href;
    again.textContent = "Show it again";
    toast.append("This page has changed. ", again);
    document.body.append(toast);
  };
  const show = async () => {
    waiting = 0;
    shown = Date.now();
    if (isInUse(main)) return tell();
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (!fresh) return;
    if (isInUse(main)) return tell();
    const focused = main.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
    main.replaceChildren(...fresh.childNodes);
    unhide(main);
    const link = focused ? [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused) : undefined;
    link?.focus({ preventScroll: true });
  };
  const soon = () => {
    if (!waiting) waiting = window.setTimeout(() => void show(), Math.max(2000, shown + 10_000 - Date.now()));
  };
  const open = () => {
    source = new EventSource(`/live?${kinds}`);
    source.addEventListener("message", (event) => {
      const record = main.dataset.liveRecord;
      if (!record || JSON.parse(event.data).includes(record)) soon();
    });
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CLOSED && !document.hidden) window.setTimeout(reopen, 30_000);
    });
  };
  const reopen = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    open();
    soon();
  };
  // A browser has few connections to a server. Pages that nobody looks at need none.
  document.addEventListener("visibilitychange", () => (document.hidden ? source?.close() : reopen()));
  if (!document.hidden) open();
}
{
  const main = document.querySelector("main[data-live]");
  if (main instanceof HTMLElement) follow(main);
}
