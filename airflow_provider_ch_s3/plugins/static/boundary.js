// What cannot be drawn takes the place of our own page only: Airflow would show its error instead of the whole task.

import { Component, h } from "./react.js";

class Boundary extends Component {
  constructor(props) {
    super(props);
    this.state = { failure: null };
  }

  static getDerivedStateFromError(failure) {
    return { failure };
  }

  render() {
    const { failure } = this.state;
    if (!failure) {
      return this.props.children;
    }
    const text = `This page cannot be shown (${failure}). What the task returned is in its tab XCom; please report this error.`;
    return h("p", { className: "ch-s3-report", role: "alert" }, text);
  }
}

// The page of another task or with other filters begins without the error of the one before.
export function withBoundary(page) {
  return (props) => h(Boundary, { key: JSON.stringify(props) }, h(page, props));
}
