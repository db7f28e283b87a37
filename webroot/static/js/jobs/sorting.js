/** The order of the list: by the heads of its columns, and by a list where these have no room. */
import { byId, delegate } from "../dom.js";
import { query, setQuery } from "./query.js";

/** @param {string} sort */
const opposite = (sort) => (sort.startsWith("-") ? sort.slice(1) : `-${sort}`);

/** @param {() => void} changed @returns {() => void} shows what the address says */
export function startSorting(changed) {
  const select = /** @type {HTMLSelectElement} */ (byId("sort"));
  const show = () => {
    const sort = query().sort || "name";
    select.value = sort;
    document.querySelectorAll("#jobs [data-sort]").forEach((head) => {
      const isBy = [sort, opposite(sort)].includes(head.dataset.sort);
      head.setAttribute("aria-sort", !isBy ? "none" : sort.startsWith("-") ? "descending" : "ascending");
    });
  };
  const choose = (/** @type {string} */ sort) => {
    setQuery({ sort: sort === "name" ? "" : sort });
    show();
    changed();
  };
  select.addEventListener("change", () => choose(select.value));
  delegate(byId("jobs"), "click", "[data-sort] button", (button) => {
    const { sort } = button.closest("[data-sort]").dataset;
    choose(sort === (query().sort || "name") ? opposite(sort) : sort);
  });
  return show;
}
