// The files of a load, which the ledger knows: read when somebody wants to see them.

import { Section, Table } from "./elements.js";
import { countOf, formatBytes, formatCount } from "./format.js";
import { readLoadFiles } from "./ledger_api.js";
import { h, useState } from "./react.js";

function List({ found: { files, is_cut: isCut, skipped } }) {
  const shown = `${countOf(files.length, "file")}${isCut ? ", the first of more" : ""}`;
  const leftOut = skipped.map(({ files: count, why }) => `${countOf(count, "file")} ${why}`);
  return h(
    "div",
    null,
    h("p", null, [shown, ...leftOut].join("; ")),
    h(Table, {
      label: "Files",
      head: ["file", "size", "rows", "ETag", "state"],
      rows: files.map(({ path, size_bytes: size, rows, etag, why }) => [
        h("code", null, path),
        formatBytes(size),
        rows === null ? "" : formatCount(rows),
        h("code", null, etag),
        why,
      ]),
    }),
  );
}

export function Files({ report, connection }) {
  const [found, setFound] = useState(null);
  // The chunks of a load are attempts of their own, which the id of the load names together.
  const load = report.chunks > 1 ? report.query_id.replace(/-\d+-\d+-insert$/, "") : report.query_id;
  async function read() {
    setFound({ isReading: true });
    const failed = ({ message }) => ({ failure: message });
    setFound(await readLoadFiles({ load, conn_id: connection }).catch(failed));
  }
  return h(
    Section,
    { title: "Files", note: countOf(report.files_listed ?? report.files_read, "file") },
    found === null && h("button", { type: "button", onClick: read }, "Show the files"),
    found?.isReading && h("p", null, "Reading the ledger…"),
    found?.failure && h("p", { role: "alert" }, found.failure),
    found?.files && h(List, { found }),
  );
}
