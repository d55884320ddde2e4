// The pieces that the sections of both pages are made of.

import { formatCount } from "./format.js";
import { html, useState } from "./react.js";

const COPIED_MILLISECONDS = 1500;

export const Section = ({ title, note, children }) => html`
  <section>
    <h3>${title}${note && html`<small>${note}</small>`}</h3>
    ${children}
  </section>`;

// A number with a bar as long as its share of the largest one.
export function Bar({ value, most }) {
  const width = `${most ? (100 * value) / most : 0}%`;
  return html`<span className="bar"><span>${formatCount(value)}</span><i style=${{ width }} /></span>`;
}

export function Table({ label, head, rows }) {
  const rowOf = ([name, ...cells], row) => html`
    <tr key=${row}>
      <th scope="row">${name}</th>
      ${cells.map((cell, index) => html`<td key=${index} data-head=${head[index + 1]}>${cell}</td>`)}
    </tr>`;
  return html`
    <div className="scroll" role="region" aria-label=${label} tabIndex=${0}>
      <table>
        <thead><tr>${head.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
        <tbody>${rows.map(rowOf)}</tbody>
      </table>
    </div>`;
}

export const TableSection = ({ title, note, label = title, ...table }) =>
  html`<${Section} title=${title} note=${note}><${Table} label=${label} ...${table} /><//>`;

export const Failure = ({ text }) => (text ? html`<p className="outcome bad" role="alert">${text}</p>` : null);

// The first of many, and a button that shows all: [what is shown now, the button or nothing].
export function useFirst(all, count) {
  const [isWhole, setIsWhole] = useState(false);
  if (isWhole || all.length <= count) {
    return [all, null];
  }
  const text = `Show all ${formatCount(all.length)}`;
  return [all.slice(0, count), html`<button type="button" onClick=${() => setIsWhole(true)}>${text}</button>`];
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
  return html`
    <button type="button" onClick=${copy} aria-label="Copy ${what}">${isCopied ? "Copied" : "Copy"}</button>`;
}
