// What can be seen of a page that is wrong, as a list of sentences. Runs in the page.
() => {
  const found = new Set();
  const name = (element) => {
    const text = (element.textContent ?? "").trim().slice(0, 40);
    return `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}"> ${JSON.stringify(text)}`;
  };
  const isShown = (element) => {
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
    for (let each = element; each; each = each.parentElement) {
      const box = each.getBoundingClientRect();
      if (getComputedStyle(each).display !== "contents" && (box.width <= 1 || box.height <= 1)) return false; // for screen readers
    }
    return true;
  };
  const isInside = (boxes, x, y) => [...boxes].some((box) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom);
  const floats = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const { position } = getComputedStyle(each);
      if (position === "fixed" || position === "sticky") return true;
    }
    return false;
  };
  const scrolls = (value) => value === "auto" || value === "scroll";

  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.add(`the page is ${root.scrollWidth - root.clientWidth} px wider than its window`);

  for (const each of document.querySelectorAll("button, a[href], input, select, textarea, [role=button], [role=tab], [role=menuitem]")) {
    if (!isShown(each)) continue;
    const said = each.getAttribute("aria-label") || each.getAttribute("aria-labelledby") || each.textContent?.trim() || each.title;
    const label = each.labels?.length || each.closest("label");
    if (!said && !label) found.add(`no name: ${name(each)}`);
  }

  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const element = text.parentElement;
    if (!text.data.trim() || !element || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) || !isShown(element)) continue;
    const style = getComputedStyle(element);
    if (Number.parseFloat(style.fontSize) < 12) found.add(`${style.fontSize} text: ${name(element)}`);

    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    // The nearest ancestor that cuts what goes beyond it; one with an ellipsis, a line clamp or a scroll bar does so on purpose.
    let hasScroller = false;
    for (let each = element; each && each !== document.body; each = each.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(each);
      hasScroller ||= scrolls(overflowX) || scrolls(overflowY);
    }
    for (let each = hasScroller ? null : element; each && each !== document.body; each = each.parentElement) {
      const around = getComputedStyle(each);
      const frame = each.getBoundingClientRect();
      if (around.display === "inline" || around.display === "contents") continue;
      const isMeant = around.textOverflow === "ellipsis" || around.webkitLineClamp !== "none";
      const isCut = around.overflowX !== "visible";
      if (isMeant && isCut) break;
      if (box.right > frame.right + 2 || box.left < frame.left - 2 || box.bottom > frame.bottom + 4 || box.top < frame.top - 4) {
        if (!(each instanceof SVGElement) && around.position !== "absolute") {
          found.add(`text ${isCut ? "is cut by" : "goes beyond"} ${name(each)}: ${JSON.stringify(text.data.trim().slice(0, 40))}`);
        }
      }
      if (isCut || around.position === "fixed" || around.position === "absolute") break;
    }

    const [x, y] = [box.left + Math.min(box.width, 40) / 2, box.top + box.height / 2];
    const top = document.elementFromPoint(x, y);
    const isSeen = !top || top.contains(element) || element.contains(top) || floats(top) || floats(element);
    // What catches the pointer for a whole row lies above its text and is not seen.
    if (!isSeen && style.pointerEvents !== "none" && isInside(top.getClientRects(), x, y)) {
      found.add(`${name(element)} is covered by ${name(top)}`);
    }
  }
  return [...found];
}
