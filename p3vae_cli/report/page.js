for (const viewer of document.querySelectorAll(".viewer")) {
  const slider = viewer.querySelector("input[type=range]");
  const update = () => {
    const chosen = viewer.querySelector("input[type=radio]:checked").value;
    for (const part of viewer.querySelectorAll("[data-layer]")) part.hidden = part.dataset.layer !== chosen;
    for (const image of viewer.querySelectorAll("img.over")) image.style.opacity = slider.value / 100;
  };
  viewer.addEventListener("input", update);
  update();
}
