// The pieces that the sections of the tab are made of.

import { formatCount } from "./format.js";
import { h, useState } from "./react.js";

const COPIED_MILLISECONDS = 1500;

export function Section({ title, note, children }) {
  return h("section", null, h("h3", null, title, note && h("small", null, note)), children);
}

// A number with a bar as long as its share of the largest one.
export function Bar({ value, most }) {
  const width = `${most ? (100 * value) / most : 0}%`;
  return h("span", { className: "bar" }, h("span", null, formatCount(value)), h("i", { style: { width } }));
}

export function Table({ label, head, rows }) {
  return h(
    "div",
    { className: "scroll", role: "region", "aria-label": label, tabIndex: 0 },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, head.map((name) => h("th", { key: name, scope: "col" }, name)))),
      h(
        "tbody",
        null,
        rows.map(([name, ...cells], row) =>
          h("tr", { key: row }, h("th", { scope: "row" }, name), cells.map((cell, i) => h("td", { key: i }, cell))),
        ),
      ),
    ),
  );
}

export function CopyButton({ text, what }) {
  const [isCopied, setIsCopied] = useState(false);
  // Browsers have no clipboard for pages that come without TLS.
  if (!navigator.clipboard) {
    return null;
  }
  async function copy() {
    await navigator.clipboard.writeText(text);
    setIsCopied(true);
    setTimeout(() => setIsCopied(false), COPIED_MILLISECONDS);
  }
  return h("button", { type: "button", onClick: copy, "aria-label": `Copy ${what}` }, isCopied ? "Copied" : "Copy");
}
