/** What is pressed while a page's scripts and the caller are on their way: it counts as soon as they are there. */

/** Begins to note it. @returns {() => void} presses what is still offered; then nothing is noted any more */
export function notePresses() {
  /** @type {Set<HTMLElement>} */
  const pressed = new Set();
  const noting = new AbortController();
  document.addEventListener("click", ({ target }) => {
    const button = /** @type {Element} */ (target).closest("button");
    if (button && document.querySelector("main")?.contains(button)) {
      pressed.delete(button); // what was pressed last comes last
      pressed.add(button);
    }
  }, { signal: noting.signal });
  // A form that no script has taken yet would leave the page, and what was typed with it.
  document.addEventListener("submit", (event) => event.preventDefault());
  return () => {
    noting.abort();
    pressed.forEach((button) => button.checkVisibility() && button.click());
  };
}
