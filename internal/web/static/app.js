// @ts-check
"use strict";

/**
 * The script of console and portal. Every page works without it, except for live values. It adds
 * keyboard control, live refresh, confirmation dialogs, relative times, copying and row selection.
 * It never creates markup from text of senders: it sets textContent only.
 */
(() => {
  /** @type {(selector: string, root?: ParentNode) => HTMLElement[]} */
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  /** @type {(selector: string, root?: ParentNode) => HTMLElement | null} */
  const one = (selector, root = document) => root.querySelector(selector);
  /** @type {(target: EventTarget | null) => HTMLElement | null} */
  const element = (target) => (target instanceof HTMLElement || target instanceof SVGElement ? /** @type {HTMLElement} */ (target) : null);
  /** @type {any} */
  const htmx = Reflect.get(window, "htmx");

  // ---- Times

  /** @type {(seconds: number) => string} */
  const duration = (seconds) => {
    if (seconds < 120) return `${Math.floor(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
    if (seconds < 86400) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
    return `${Math.floor(seconds / 86400)} d`;
  };
  const refreshTimes = () => {
    if (document.hidden) return;
    for (const time of all("time[datetime]:not([data-form])")) {
      const seconds = (Date.now() - Date.parse(time.getAttribute("datetime") || "")) / 1000;
      if (Number.isNaN(seconds)) continue;
      time.textContent = Math.abs(seconds) < 2 ? "now" : seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`;
    }
  };
  setInterval(refreshTimes, 5000);

  // ---- Theme, stored in a cookie so that the server renders the page in it

  /** @type {(theme: string) => void} */
  const setTheme = (theme) => {
    document.documentElement.dataset.theme = theme;
    const path = document.body.dataset.root || "/";
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `eventhook_theme=${theme}; path=${path}; max-age=31536000; samesite=lax${secure}`;
  };

  // ---- Rows: j k move, enter opens, x selects

  const rows = () => all("tbody tr[data-href]");
  const currentRow = () => one("tbody tr.current");
  /** @type {(row: HTMLElement | null | undefined) => void} */
  const setCurrent = (row) => {
    if (!row) return;
    currentRow()?.classList.remove("current");
    row.classList.add("current");
    row.scrollIntoView({ block: "nearest" });
    const link = one("a[href]", row);
    if (link) link.focus({ preventScroll: true });
  };
  /** @type {(by: number) => void} */
  const move = (by) => {
    const list = rows(), row = currentRow();
    setCurrent(row ? list[Math.min(Math.max(list.indexOf(row) + by, 0), list.length - 1)] : list[0]);
  };
  /** @type {(row: Element | null) => void} */
  const open = (row) => {
    const href = row?.getAttribute("data-href");
    if (href) location.assign(href);
  };

  // ---- Selection of rows for bulk acts. The form of the bulk bar sends the checked boxes.

  const boxes = () => /** @type {HTMLInputElement[]} */ (all("input[data-select]"));
  const showSelection = () => {
    const chosen = boxes().filter((box) => box.checked);
    for (const box of boxes()) box.closest("tr")?.classList.toggle("selected", box.checked);
    for (const bar of all("[data-bulk]")) bar.hidden = chosen.length === 0;
    for (const count of all("[data-selected-count]")) count.textContent = String(chosen.length);
    const everything = /** @type {HTMLInputElement | null} */ (one("input[data-select-all]"));
    if (everything) {
      everything.checked = chosen.length > 0 && chosen.length === boxes().length;
      everything.indeterminate = chosen.length > 0 && !everything.checked;
    }
    if (!everything) return;
    const url = new URL(location.href);
    url.searchParams.delete("selected");
    for (const box of chosen) url.searchParams.append("selected", box.value);
    history.replaceState(history.state, "", url);
  };

  // ---- Live values: one stream per page, none while the tab is hidden

  /** @type {EventSource | null} */
  let stream = null;
  let heardAt = 0, openedAt = 0, refreshedAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let planned;
  const refreshEvery = 2000, staleAfter = 1700, lookEvery = 250, reconnectAfter = 5000; // a heartbeat comes each second
  /** @type {(state: string, text: string) => void} */
  const showLive = (state, text) => {
    const label = one("[data-live-state]");
    if (!label) return;
    if (label.dataset.state !== state) label.dataset.state = state;
    if (label.textContent !== text) label.textContent = text;
    document.body.classList.toggle("stale", state === "stale");
  };
  const clock = (/** @type {number} */ at) => new Date(at).toLocaleTimeString([], { hour12: false });
  const tail = 240; // pixels from the top within which new rows are inserted
  /** Returns why live parts wait, or "" if they do not. */
  const pausedBy = () => {
    if (!document.querySelector("[data-live-part]")) return "";
    if (boxes().some((box) => box.checked)) return "rows selected";
    if (scrollY > tail) return "scrolled";
    return document.querySelector("dialog[open]") ? "dialog open" : "";
  };
  let isMissed = false; // something happened while live parts waited
  const refresh = () => {
    planned = undefined;
    if (document.hidden) return;
    isMissed = pausedBy() !== "";
    if (isMissed) return;
    refreshedAt = Date.now();
    for (const part of all("[data-live-part]")) htmx?.trigger(part, "live");
  };
  const planRefresh = () => {
    if (planned === undefined) planned = setTimeout(refresh, Math.max(0, refreshedAt + refreshEvery - Date.now()));
  };
  const heard = () => {
    heardAt = Date.now();
    showHeard();
  };
  const showHeard = () => {
    const reason = pausedBy();
    if (reason) showLive("paused", `paused (${reason}) · ${clock(heardAt)}`);
    else showLive("live", `live · ${clock(heardAt)}`);
  };
  const connect = () => {
    const url = document.body.dataset.live;
    if (!url || stream || document.hidden) return;
    openedAt = Date.now();
    stream = new EventSource(url);
    stream.onopen = () => {
      const wasLost = heardAt > 0;
      heard();
      if (wasLost) planRefresh(); // shows what happened meanwhile
    };
    stream.addEventListener("heartbeat", heard);
    for (const name of ["event", "gap"]) stream.addEventListener(name, () => { heard(); planRefresh(); });
    stream.onerror = () => { if (stream?.readyState === EventSource.CLOSED) disconnect(); }; // connected again below
  };
  const disconnect = () => { stream?.close(); stream = null; };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { disconnect(); return; }
    refreshTimes();
    connect();
  });
  setInterval(() => {
    if (!document.body.dataset.live || document.hidden) return;
    const last = Math.max(heardAt, openedAt);
    if (Date.now() - last > staleAfter) showLive("stale", heardAt ? `connection lost · ${clock(heardAt)}` : "no connection");
    else if (heardAt) {
      showHeard();
      if (isMissed && !pausedBy()) { isMissed = false; planRefresh(); }
    }
    if (Date.now() - last > reconnectAfter && Date.now() - openedAt > reconnectAfter) { disconnect(); connect(); }
  }, lookEvery);

  // ---- Parts that wait for something which no stream tells are refreshed. A hidden tab does not ask.

  setInterval(() => {
    if (document.hidden || Date.now() - refreshedAt < refreshEvery || document.querySelector("dialog[open], details.menu[open]")) return;
    for (const part of all("[data-refresh]")) htmx?.trigger(part, "live");
  }, refreshEvery);

  // ---- Dialogs

  /** @type {(form: HTMLFormElement, submitter: HTMLElement | null, text: string) => void} */
  const confirmForm = (form, submitter, text) => {
    const dialog = /** @type {HTMLDialogElement | null} */ (one("#confirm"));
    if (!dialog) return;
    const message = one("[data-confirm-text]", dialog), proceed = one("[data-confirm-proceed]", dialog);
    if (!message || !proceed) return;
    message.textContent = text;
    proceed.textContent = submitter?.textContent?.trim() || "Continue";
    dialog.showModal();
    dialog.onclose = () => {
      if (dialog.returnValue !== "proceed") return;
      dialog.returnValue = "";
      form.dataset.confirmed = "true";
      form.requestSubmit(/** @type {HTMLElement | null} */ (submitter));
      delete form.dataset.confirmed;
    };
  };
  document.addEventListener("submit", (e) => {
    const form = /** @type {HTMLFormElement} */ (e.target);
    const text = e.submitter?.dataset.confirm || form.dataset.confirm;
    if (text && !form.dataset.confirmed) {
      e.preventDefault();
      e.stopImmediatePropagation();
      const chosen = boxes().filter((box) => box.checked).length;
      confirmForm(form, e.submitter, text.replace("{selected}", String(chosen)));
    }
  }, true);

  // ---- Copying

  /** @type {(button: HTMLElement) => Promise<void>} */
  const copy = async (button) => {
    const from = button.dataset.copyFrom;
    const text = from ? one(from)?.textContent || "" : button.dataset.copy || "";
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no permission, or not a secure context
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const status = one("[data-announce]");
    if (status) status.textContent = "Copied.";
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
    if (button.classList.contains("icon")) return;
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  };

  // ---- Events of the page

  document.addEventListener("click", (e) => {
    const target = element(e.target);
    if (!target) return;
    const button = /** @type {HTMLElement | null} */ (target.closest("[data-copy], [data-copy-from], [data-theme-set], [data-close], [data-show]"));
    if (button?.dataset.themeSet) setTheme(button.dataset.themeSet);
    else if (button && ("copy" in button.dataset || "copyFrom" in button.dataset)) void copy(button);
    else if (button?.dataset.show) /** @type {HTMLDialogElement | null} */ (one(button.dataset.show))?.showModal();
    else if (button && "close" in button.dataset) button.closest("dialog")?.close();
    if (!target.closest("details.menu")) for (const menu of all("details.menu[open]")) menu.removeAttribute("open");
    const row = target.closest("tr[data-href]");
    if (row && !target.closest("a, button, input, label, select, summary") && !getSelection()?.toString()) {
      if (e.metaKey || e.ctrlKey) window.open(row.getAttribute("data-href") || "", "_blank");
      else open(row);
    }
  });
  document.addEventListener("change", (e) => {
    const input = /** @type {HTMLInputElement} */ (e.target);
    if (input.matches("input[data-select-all]")) for (const box of boxes()) box.checked = input.checked;
    if (input.matches("input[data-select], input[data-select-all]")) showSelection();
    if (input.matches("[data-submit]")) input.form?.requestSubmit();
  });
  document.addEventListener("input", (e) => {
    const input = /** @type {HTMLInputElement} */ (e.target), list = input.dataset.filterList;
    if (!list) return;
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of all(`${list} [data-filter-text]`)) {
      const text = (item.dataset.filterText || "").toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
      if (!item.hidden) shown++;
    }
    const empty = one(`${list}-empty`);
    if (empty) empty.hidden = shown > 0;
  });

  // A box that checks all boxes of its group that are shown.
  /** @type {(group: Element) => void} */
  const showChecked = (group) => {
    const everything = /** @type {HTMLInputElement | null} */ (one("input[data-check-all]", group));
    if (!everything) return;
    const list = /** @type {HTMLInputElement[]} */ (all("input[type=checkbox]:not([data-check-all])", group));
    const checked = list.filter((box) => box.checked).length;
    everything.checked = checked === list.length;
    everything.indeterminate = checked > 0 && !everything.checked;
    const label = everything.closest("label");
    if (label) label.hidden = false;
  };
  document.addEventListener("change", (e) => {
    const input = /** @type {HTMLInputElement} */ (e.target), group = input.closest("[data-check-group]");
    if (!group) return;
    if (input.matches("[data-check-all]")) {
      for (const box of /** @type {HTMLInputElement[]} */ (all("input[type=checkbox]", group))) if (box.checkVisibility()) box.checked = input.checked;
    }
    showChecked(group);
  });
  for (const group of all("[data-check-group]")) showChecked(group);

  // A text that repeats what is typed elsewhere.
  document.addEventListener("input", (e) => {
    const input = /** @type {HTMLInputElement} */ (e.target), mirror = input.dataset.mirror && one(input.dataset.mirror);
    if (mirror) mirror.textContent = input.value;
  });

  // ---- Rows that are dragged into an order. Their form is sent on drop; its buttons do the same by keyboard.

  /** @type {HTMLElement | null} */
  let dragged = null;
  let orderBefore = "";
  const orderOf = (/** @type {Element | null} */ list) => all("tr", list || document).map((row) => row.dataset.href).join();
  document.addEventListener("dragstart", (e) => {
    const row = /** @type {HTMLElement | null} */ (element(e.target)?.closest("[data-drag-list] > tr") ?? null);
    if (!row || element(e.target) !== row) return;
    dragged = row;
    orderBefore = orderOf(row.parentElement);
  });
  document.addEventListener("dragover", (e) => {
    const over = element(e.target)?.closest("tr");
    if (!dragged || !over || over.parentElement !== dragged.parentElement) return;
    e.preventDefault();
    const box = over.getBoundingClientRect();
    if (over !== dragged) over[e.clientY < box.top + box.height / 2 ? "before" : "after"](dragged);
  });
  document.addEventListener("dragend", () => {
    if (dragged && orderOf(dragged.parentElement) !== orderBefore) dragged.closest("form")?.requestSubmit();
    dragged = null;
  });

  // ---- Tables that fit show their whole width, so that their heads stick to the window

  const fit = new ResizeObserver((entries) => {
    for (const { target } of entries) target.classList.toggle("fits", target.scrollWidth <= target.clientWidth);
  });
  const fitTables = () => {
    fit.disconnect();
    for (const table of all(".scroll")) fit.observe(table);
  };

  // ---- A page that loads for longer shows the shape of a page after 150 ms

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let slow;
  const showPage = () => { clearTimeout(slow); document.body.classList.remove("loading"); };
  addEventListener("beforeunload", () => {
    showPage();
    slow = setTimeout(() => { document.body.classList.add("loading"); slow = setTimeout(showPage, 15000); }, 150);
  });
  addEventListener("pageshow", showPage);
  addEventListener("keydown", (e) => { if (e.key === "Escape") showPage(); }); // stops the load

  // ---- Keyboard

  let prefix = "";
  const isTyping = (/** @type {EventTarget | null} */ target) => element(target)?.matches("input:not([type=checkbox]), textarea, select, [contenteditable]") ?? false;
  /** @type {Record<string, () => void>} */
  const keys = {
    "/": () => one("[data-search]")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    x: () => {
      const box = /** @type {HTMLInputElement | null} */ (one("tr.current input[data-select]"));
      if (box) { box.checked = !box.checked; showSelection(); }
    },
    "?": () => /** @type {HTMLDialogElement | null} */ (one("#keys"))?.showModal(),
    Escape: () => { const back = one("[data-back]"); if (back instanceof HTMLAnchorElement) location.assign(back.href); },
  };
  document.addEventListener("keydown", (e) => {
    if (e.metaKey || e.ctrlKey || e.altKey || document.querySelector("dialog[open]")) return;
    if (isTyping(e.target)) {
      if (e.key === "Escape") element(e.target)?.blur();
      return;
    }
    if (e.key === "Enter" && currentRow() && (e.target === document.body || element(e.target)?.closest("tr.current a"))) {
      e.preventDefault();
      open(currentRow());
      return;
    }
    const opened = one("details.menu[open]");
    if (e.key === "Escape" && opened) { opened.removeAttribute("open"); one("summary", opened)?.focus(); return; }
    if (prefix === "g") {
      prefix = "";
      const link = /** @type {HTMLAnchorElement | undefined} */ (all("a[data-key]").find((a) => a.dataset.key === e.key));
      if (link) { e.preventDefault(); location.assign(link.href); return; }
    }
    if (e.key === "g") { prefix = "g"; setTimeout(() => { prefix = ""; }, 1500); return; }
    const act = keys[e.key];
    if (act) { e.preventDefault(); act(); }
  });

  // ---- Parts that htmx replaces

  let currentHref = "";
  document.addEventListener("htmx:beforeSwap", () => { currentHref = currentRow()?.getAttribute("data-href") || ""; });
  document.addEventListener("htmx:afterSwap", (e) => {
    const dialog = /** @type {HTMLDialogElement | null} */ (element(e.target)?.closest("dialog"));
    if (dialog && !dialog.open) dialog.showModal();
    const row = currentHref && rows().find((r) => r.getAttribute("data-href") === currentHref);
    if (row) row.classList.add("current");
    refreshTimes();
    fitTables();
  });
  // Results that the server refuses: the complete page says why.
  document.addEventListener("htmx:responseError", (e) => {
    const page = element(e.target)?.dataset.results;
    if (page) location.replace(page);
  });
  document.addEventListener("htmx:sendError", (e) => {
    const target = element(e.target), status = target?.dataset.results && one("[role=status]", target);
    if (status) status.textContent = "The connection was lost. Reload the page to search again.";
  });
  document.addEventListener("htmx:configRequest", (e) => {
    const headers = /** @type {CustomEvent} */ (e).detail.headers;
    headers["X-CSRF-Token"] = document.body.dataset.csrf || "";
  });

  // The answer to a form that must not be sent twice has the address of another page, which a reload opens.
  const address = one("[data-address]")?.dataset.address;
  if (address) history.replaceState(history.state, "", address);

  // On a phone the navigation is a row, in which the present page must be seen.
  const showCurrentPage = () => {
    const link = one(".side a[aria-current]"), side = one(".side");
    if (link && side) side.scrollLeft = link.offsetLeft - (side.clientWidth - link.offsetWidth) / 2;
  };
  addEventListener("resize", showCurrentPage);
  showCurrentPage();
  fitTables();
  showSelection();
  connect();
})();
