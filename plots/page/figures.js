// Pictures of the experiments, which are compressed in the page.
function showFigures() {
  return Promise.all([...document.querySelectorAll("img[data-svg]")].map(async (image) => {
    const text = new TextDecoder().decode(await inflate(image.dataset.svg));
    image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
    image.removeAttribute("data-svg");
    await image.decode().catch(() => {}); // a picture that cannot be shown has its text
  }));
}
