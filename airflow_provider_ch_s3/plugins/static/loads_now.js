// What is going on now: open attempts, and locks that are held.

import { Section, Table } from "./elements.js";
import { formatCount } from "./format.js";
import { State, Who, formatAge } from "./loads_elements.js";
import { h } from "./react.js";

const ageOf = (seconds) => (seconds === null ? "?" : formatAge(seconds));

export function Now({ page: { open, locks } }) {
  if (!open.length && !locks.length) {
    return h(Section, { title: "Now" }, h("p", null, "No attempt is open, and no lock is held."));
  }
  return h(
    Section,
    { title: "Now", note: "the next load into a table finishes or removes what nobody continues" },
    open.length > 0 &&
      h(Table, {
        label: "Open attempts",
        head: ["open attempt", "age", "task", "table", "state", "try", "files"],
        rows: open.map((load) => [
          h("code", null, load.query_id),
          ageOf(load.age_seconds),
          h(Who, { load }),
          load.table,
          h(State, { load }),
          load.try_number,
          formatCount(load.files),
        ]),
      }),
    locks.length > 0 &&
      h(Table, {
        label: "Locks",
        head: ["lock of", "held for", "last sign of life", "owner", "try"],
        rows: locks.map((lock) => [
          lock.table,
          ageOf(lock.age_seconds),
          lock.silent_seconds === null ? "?" : `${formatAge(lock.silent_seconds)} ago`,
          lock.owner,
          lock.try_number,
        ]),
      }),
  );
}
