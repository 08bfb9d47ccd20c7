"use strict";
for (const chart of document.querySelectorAll(".chart")) {
  const figure = JSON.parse(chart.querySelector("script").textContent);
  Plotly.newPlot(chart.querySelector(".plot"), figure.data, figure.layout, {displayModeBar: false, responsive: true});
}
for (const quote of document.querySelectorAll("pre")) {
  const first = quote.querySelector("mark");
  if (first) quote.scrollTop = first.getBoundingClientRect().top - quote.getBoundingClientRect().top - 40;
}
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open])")];
  for (const details of unfolded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of unfolded) details.open = false;
});
