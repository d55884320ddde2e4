// What both pages are built on: their style sheets, what they read, and what is shown of one that cannot be drawn.

import { Component, html, useEffect, useState } from "./react.js";

const POLL_MILLISECONDS = 3000;
export const untilOver = (found) => (found?.isOver ? 0 : POLL_MILLISECONDS);

export function loadStyle(name) {
  return new Promise((resolve) => {
    const link = document.createElement("link");
    const href = new URL(name, import.meta.url);
    document.head.append(Object.assign(link, { rel: "stylesheet", href, onload: resolve, onerror: resolve }));
  });
}

// { found, failure, isPending } of what was asked last, whichever answer comes last; the one before stays until then.
// Reads again after the milliseconds that `pauseAfter` returns; `read` is null as long as there is nothing to read.
export function useAnswer(read, asked, pauseAfter = () => 0) {
  const [answer, setAnswer] = useState({});
  const key = JSON.stringify(asked);
  useEffect(() => {
    let timer = null;
    let isGone = false;
    async function ask() {
      const given = await read().then((found) => ({ found }), (error) => ({ failure: error.message }));
      if (!isGone) {
        setAnswer({ ...given, key });
        const pause = pauseAfter(given.found);
        timer = pause && setTimeout(ask, pause);
      }
    }
    if (read) {
      ask();
    }
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [key]);
  return { ...answer, isPending: answer.key !== key };
}

// What cannot be drawn takes the place of our own page only: Airflow would show its error instead of the whole task.
class Boundary extends Component {
  state = { failure: null };

  static getDerivedStateFromError(failure) {
    return { failure };
  }

  render() {
    const { failure } = this.state;
    if (!failure) {
      return this.props.children;
    }
    return html`
      <p className="ch-s3-report" role="alert">
        ${`This page cannot be shown (${failure}). What the task returned is among its XComs; `}
        please report this error.
      </p>`;
  }
}

// The page of another task or with other filters begins without the error of the one before.
export const withBoundary = (page) => (props) =>
  html`<${Boundary} key=${JSON.stringify(props)}><${page} ...${props} /><//>`;
