// Why a load failed, taken apart: what is wrong, the column, the value, the row, the file, what to do, and the server's words.

import { html } from "./react.js";

// What a message begins to say in the words of the server.
const SERVER = /(?:^|:? )(Code: \d+\. .*)$/s;
const PLACE = /^(?:row (?<row>.+?) of |in a file of |in )(?<file>\S.*)$/;
const WHOSE = /^column (?<column>.+?): (?:(?<value>(?<quote>['"]).*\k<quote>) )?/;

const splitAt = (text, at) => (at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 2)]);

// A value that does not fit: a line for each question, as introspection/explain.py writes them.
function readBadValue(lines) {
  const [headline, ...others] = lines;
  const found = { headline, ...WHOSE.exec(headline)?.groups };
  for (const line of others) {
    const place = PLACE.exec(line)?.groups;
    if (line.startsWith("ClickHouse: ")) {
      found.server = line.slice("ClickHouse: ".length);
    } else if (place && !found.file) {
      Object.assign(found, place);
    } else {
      found.remedy = line;
    }
  }
  return found;
}

// What is wrong; what to do about it.
function readSentence(text) {
  const said = SERVER.exec(text);
  if (!said) {
    const [headline, remedy] = splitAt(text, text.indexOf("; "));
    return { headline, remedy };
  }
  const [server, remedy] = splitAt(said[1], said[1].lastIndexOf("; "));
  return { headline: text.slice(0, said.index) || "ClickHouse refuses a statement", server, remedy };
}

// Every message of this package ends with a code; of what others raise, only the text is known.
export function readFailure(text) {
  const [, said, code] = /^(.*) \[([a-z][a-z0-9-]*)\]$/s.exec(text) ?? [];
  if (!code) {
    return { headline: text, code: "" };
  }
  const lines = said.split("\n");
  return { code, ...(lines.length > 1 ? readBadValue(lines) : readSentence(said)) };
}

export function LoadFailure({ text }) {
  const { headline, column, value, row, file, remedy, server, code } = readFailure(text);
  const field = (label, content) => content && html`<div><dt>${label}</dt><dd><code>${content}</code></dd></div>`;
  return html`
    <div className="outcome bad" role="alert">
      <p className="headline">${headline}${code && html` <code>${code}</code>`}</p>
      ${(column || file) && html`
        <dl>${field("Column", column)}${field("Value", value)}${field("Row", row)}${field("File", file)}</dl>`}
      ${remedy && html`<p>${`What to do: ${remedy}`}</p>`}
      ${server && html`<details><summary>What ClickHouse says</summary><pre>${server}</pre></details>`}
    </div>`;
}
