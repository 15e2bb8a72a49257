// A click on a heading sorts its table by that column; another click turns the order round.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th").forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const order = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
      const value = (row) => {
        const cell = row.cells[column];
        return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
      };
      const compare = (a, b) => {
        const [x, y] = [value(a), value(b)];
        if (typeof x === typeof y) return typeof x === "number" ? x - y : x.localeCompare(y);
        return typeof x === "number" ? -1 : 1; // numbers before texts, which stand where there is none
      };
      const sign = order === "ascending" ? 1 : -1;
      body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
    });
  });
}
