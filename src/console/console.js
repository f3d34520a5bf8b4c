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

/** Bytes in base64url, as the API has them. @param {ArrayBuffer | null} bytes */
function base64url(bytes) {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes ?? new ArrayBuffer(0))));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Asks the browser for the passkey of a form. @param {HTMLInputElement} field */
async function askForPasskey(field) {
  const { begun, options, body } = field.dataset;
  let asked = begun ? JSON.parse(begun) : undefined;
  if (!asked) {
    const headers = body ? { "content-type": "application/json" } : undefined;
    const answer = await fetch(options ?? "", { method: "POST", headers, body });
    asked = await answer.json();
    if (!answer.ok) throw new Error(asked.detail, { cause: "answer" });
  }
  const parsers = /** @type {any} */ (PublicKeyCredential);
  const { enrolment, ticket } = asked;
  const used = /** @type {any} */ (
    enrolment
      ? await navigator.credentials.create({ publicKey: parsers.parseCreationOptionsFromJSON(asked.options) })
      : await navigator.credentials.get({ publicKey: parsers.parseRequestOptionsFromJSON(asked.options) })
  );
  const client_data = base64url(used.response.clientDataJSON);
  if (enrolment) return { enrolment, client_data, attestation_object: base64url(used.response.attestationObject) };
  const { authenticatorData, signature, userHandle } = used.response;
  const user_handle = base64url(userHandle) || undefined;
  return { ticket, id: used.id, client_data, authenticator_data: base64url(authenticatorData), signature: base64url(signature), user_handle };
}

/** A form with a passkey is sent after the browser has used it. */
document.addEventListener("submit", async (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  const field = form.querySelector("input[data-options], input[data-begun]");
  if (!(field instanceof HTMLInputElement) || field.value) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const problem = form.querySelector("[data-passkey-problem]");
  if (!(problem instanceof HTMLElement)) return;
  problem.hidden = true;
  try {
    field.value = JSON.stringify(await askForPasskey(field));
    form.requestSubmit();
  } catch (error) {
    const isAnswer = error instanceof Error && error.cause === "answer";
    problem.textContent = isAnswer ? error.message : "The browser has not used a passkey. Try again, or choose another way.";
    problem.hidden = false;
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
  // What a passkey has returned works once.
  for (const field of document.querySelectorAll("input[data-options], input[data-begun]")) field.removeAttribute("value");
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

/** Whether the browser offers passkeys here. It offers none for an IP address. */
function hasPasskeys() {
  return "PublicKeyCredential" in window && "parseRequestOptionsFromJSON" in PublicKeyCredential && !/^[\d.]+$|:/.test(location.hostname);
}

/** Shows what works only with this script. @param {ParentNode} part */
function unhide(part) {
  for (const element of part.querySelectorAll("[data-all], button[data-copy], [data-passkey]")) {
    const works = element.matches("[data-all]") || (element.matches("[data-passkey]") ? hasPasskeys() : navigator.clipboard);
    if (element instanceof HTMLElement && works) element.hidden = false;
  }
}
unhide(document);

/** Tells the server the time zone of the browser, for people who have not set another. */
{
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const secure = location.protocol === "https:";
  const zone = `${secure ? "__Host-" : ""}time_zone=${name}`;
  if (/^[\w+/-]+$/.test(name) && !document.cookie.split("; ").includes(zone)) {
    document.cookie = `${zone}; path=/; max-age=31536000; samesite=strict${secure ? "; secure" : ""}`;
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

/** Checks a definition while somebody types it, and marks the lines with problems beside the text. @param {HTMLFormElement} form @param {HTMLTextAreaElement} text */
function check(form, text) {
  const gutter = document.createElement("pre");
  const frame = document.createElement("div");
  gutter.className = "gutter";
  gutter.setAttribute("aria-hidden", "true");
  frame.className = "coded";
  text.replaceWith(frame);
  frame.append(gutter, text);
  let asked = 0;
  let waiting = 0;
  const draw = () => {
    const faulty = new Set([...document.querySelectorAll("#check-beside .faulty")].map((line) => line.id));
    gutter.replaceChildren(
      ...text.value.split("\n").map((_, place) => {
        const number = document.createElement("span");
        number.textContent = String(place + 1);
        if (faulty.has(`line-${place + 1}`)) number.className = "faulty";
        return number;
      }),
    );
    gutter.scrollTop = text.scrollTop;
  };
  const ask = async () => {
    const mine = ++asked;
    const sent = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (typeof value === "string") sent.append(name, value);
    sent.set("do", "check");
    sent.set("part", "check");
    const answer = await fetch(form.action, { method: "POST", body: sent, headers: { accept: "text/html" } }).catch(() => undefined);
    if (mine !== asked || !answer?.ok || answer.redirected) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== asked) return;
    for (const id of ["check-said", "check-beside"]) {
      document.getElementById(id)?.replaceChildren(...(fresh.getElementById(id)?.childNodes ?? []));
    }
    const [live, words] = [document.getElementById("check-live"), fresh.getElementById("check-live")?.textContent ?? ""];
    // The same words are not announced again.
    if (live && live.textContent !== words) live.textContent = words;
    text.setAttribute("aria-invalid", String(document.querySelector("#check-beside .faulty") !== null));
    draw();
  };
  form.addEventListener("input", () => {
    asked += 1;
    draw();
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => void ask(), 700);
  });
  text.addEventListener("scroll", () => (gutter.scrollTop = text.scrollTop));
  draw();
}
{
  const form = document.querySelector("form[data-check]");
  const text = form?.querySelector("#definition");
  if (form instanceof HTMLFormElement && text instanceof HTMLTextAreaElement) check(form, text);
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
