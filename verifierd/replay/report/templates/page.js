"use strict";
for (const chart of document.querySelectorAll(".chart")) {
  const figure = JSON.parse(chart.querySelector("script").textContent);
  Plotly.newPlot(chart.querySelector(".plot"), figure.data, figure.layout, {displayModeBar: false, responsive: true});
}
for (const sides of document.querySelectorAll(".sides")) {
  const [predicted, observed] = sides.querySelectorAll("pre"); // both are cut around the place that decided
  const first = observed.querySelector("mark");
  if (first) observed.scrollTop = first.getBoundingClientRect().top - observed.getBoundingClientRect().top - 40;
  predicted.scrollTop = observed.scrollTop;
}
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open])")];
  for (const details of unfolded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of unfolded) details.open = false;
});
