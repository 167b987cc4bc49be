// Small parts that every panel is made of. Texts are always text, never markup.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export const address = (index, side = 96) => `picture/${index}/${side}`;

export function picture(index, name, side = 96) {
  return element("img", { src: address(index, side), alt: name, loading: "lazy", width: side === 320 ? 128 : 58, height: side === 320 ? 128 : 58 });
}

// A grid of images as buttons; `note` gives the line below each.
export function grid(items, choose, note = () => "") {
  const list = element("ul", { class: "grid" });
  for (const item of items) {
    const words = note(item);
    const button = element("button", { type: "button", title: item.name, "data-index": item.index, onclick: () => choose(item.index) }, picture(item.index, item.name));
    if (words) button.append(element("small", {}, words));
    list.append(element("li", {}, button));
  }
  return list;
}

export function fill(id, ...children) {
  document.getElementById(id).replaceChildren(...children);
}

export const hint = (words) => element("p", { class: "hint" }, words);
export const percent = (value) => `${(100 * value).toFixed(1)} %`;
