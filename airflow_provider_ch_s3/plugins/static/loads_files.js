// Files by name: those of one load, and those whose rows a table holds.

import { CopyButton, Failure, Section, Table } from "./elements.js";
import { countOf, formatBytes, formatTime } from "./format.js";
import { LoadFailure } from "./failure.js";
import { readLoadFiles, readTableFiles } from "./ledger_api.js";
import { useAnswer } from "./page.js";
import { html, useEffect, useRef, useState } from "./react.js";

// Shown below what was clicked, so that the focus has to follow.
function Panel({ title, note, children }) {
  const panel = useRef(null);
  useEffect(() => panel.current.focus(), []);
  return html`
    <div ref=${panel} tabIndex=${-1} className="panel"><${Section} title=${title} note=${note}>${children}<//></div>`;
}

function Files({ label, head, files, cellsOf }) {
  const rows = files.map((file) => [
    html`<code>${file.path}</code>`,
    formatBytes(file.size_bytes),
    html`<code>${file.etag}</code>`,
    ...cellsOf(file),
  ]);
  return html`<${Table} label=${label} head=${["file", "size", "ETag", ...head]} rows=${rows} />`;
}

function Story({ attempt }) {
  const { query_id: id, source, events, error } = attempt;
  const lines = events.map(({ time, event, try_number: number }) => `${formatTime(time)} ${event} by try ${number}`);
  return html`
    <div className="story">
      <p><code>${id}</code><${CopyButton} text=${id} what="the query id" /></p>
      <p><code>${source}</code></p>
      <ol>${lines.map((line, index) => html`<li key=${index}>${line}</li>`)}</ol>
      ${error && html`<${LoadFailure} text=${error} />`}
    </div>`;
}

export function LoadFiles({ load, where }) {
  const asked = { load, ...where };
  const { found, failure } = useAnswer(() => readLoadFiles(asked), asked);
  const title = "Files of a load";
  const files = found?.files ?? [];
  const count = found && countOf(files.length, "file");
  const became = ({ rows, why }) => [rows === null ? why : `${why}: ${countOf(rows, "row")}`];
  return html`
    <${Panel} title=${title} note=${found?.is_cut ? `the first ${count}` : count}>
      <${Failure} text=${failure} />
      ${found?.attempts.map((attempt) => html`<${Story} key=${attempt.query_id} attempt=${attempt} />`)}
      ${found?.skipped.map(({ files, why }) => html`<p key=${why}>${countOf(files, "file")} skipped: ${why}.</p>`)}
      ${found && html`<${Files} label=${title} head=${["what became of it"]} files=${files} cellsOf=${became} />`}
    <//>`;
}

export function TableFiles({ table, named, where }) {
  const [prefix, setPrefix] = useState("");
  const [place, setPlace] = useState({ prefix: "", after: "" });
  const asked = { table, ...place, ...where };
  const { found, failure } = useAnswer(() => readTableFiles(asked), asked);
  const title = `Files in ${named}`;
  const loadOf = (file) => [html`<code>${file.load_id}</code>`];
  const next = () => setPlace({ ...place, after: found.next });
  const type = (event) => setPrefix(event.target.value);

  function search(event) {
    event.preventDefault();
    setPlace({ prefix, after: "" });
  }
  return html`
    <${Panel} title=${title} note="that loads have added, according to the ledger">
      <form className="filters" onSubmit=${search}>
        <label>Path begins with<input value=${prefix} placeholder="bucket/folder/" onChange=${type} /></label>
        <button type="submit">Search</button>
      </form>
      <${Failure} text=${failure} />
      ${found && html`<${Files} label=${title} head=${["load"]} files=${found.files} cellsOf=${loadOf} />`}
      ${found?.files.length === 0 && html`<p>${found.next ? "None of these is held any more." : "No such file."}</p>`}
      ${found?.next && html`<button type="button" onClick=${next}>Next files</button>`}
    <//>`;
}
