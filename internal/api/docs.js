"use strict";
// Filters the operations by words: an operation is shown if its text contains every
// word. The filter is kept in the URL as ?q=.
(() => {
  const input = document.getElementById("q");
  const count = document.getElementById("count");
  const operations = [...document.querySelectorAll("article")].map((element) => ({
    element,
    link: document.querySelector(`nav a[href="#${element.id}"]`).parentElement,
    text: element.textContent.toLowerCase(),
  }));
  const groups = [...document.querySelectorAll(".group")];
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { element, link, text } of operations) {
      const matches = words.every((word) => text.includes(word));
      element.hidden = link.hidden = !matches;
      shown += matches;
    }
    for (const group of groups) {
      const isMenu = group.tagName === "DETAILS";
      group.hidden = !group.querySelector(isMenu ? "li:not([hidden])" : "article:not([hidden])");
      if (isMenu) group.open = words.length > 0 && !group.hidden;
    }
    count.value = words.length ? `${shown} of ${operations.length} operations` : `${operations.length} operations`;
  };
  const keep = () => {
    const url = new URL(location.href);
    if (input.value) url.searchParams.set("q", input.value);
    else url.searchParams.delete("q");
    history.replaceState(null, "", url);
  };
  input.addEventListener("input", () => { filter(); keep(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { input.value = ""; filter(); keep(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || document.activeElement === input) return;
    event.preventDefault();
    input.focus();
  });
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  document.getElementById("search").hidden = false;
  filter();
})();
