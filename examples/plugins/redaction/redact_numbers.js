// Takes long numbers out of what a model says, also those that are cut over several pieces: see redact_numbers.py, which does the
// same. Built by: smg-gateway plugin build redact_numbers.js, into 1.6 MB, most of which is an interpreter of JavaScript. It needs
// more than the default of its entry: memory_mib: 32, stack_kib: 1024.
const FEWEST = 7, LONGEST = 64, BETWEEN = " .()-";
const isDigit = (each) => each >= "0" && each <= "9";
let texts = new Map();

class Numbers {
  held = "";
  inside = false;

  ended() {
    const held = this.held;
    this.held = "";
    this.inside = false;
    return held;
  }

  after(each, masks) {
    if (!isDigit(each) && !(BETWEEN.includes(each) && (this.held || this.inside))) return this.ended() + each;
    if (this.inside && masks) return isDigit(each) ? "9" : each;
    this.held += each;
    if (this.inside) {
      if (isDigit(each)) this.held = "";
      return this.held.length > LONGEST ? this.ended() : "";
    }
    if ([...this.held].filter(isDigit).length >= FEWEST) {
      const number = this.held;
      this.held = "";
      this.inside = true;
      return masks ? number.replace(/[0-9]/g, "9") : "[number]";
    }
    return this.held.length > LONGEST ? this.ended() : "";
  }
}

export const exchange = {
  begin() { texts = new Map(); },
  finish() {},
};

export const pieces = {
  wanted() { return "text"; },
  onPiece(piece) {
    const numbers = texts.get(piece.choice) ?? new Numbers();
    texts.set(piece.choice, numbers);
    let said = "";
    for (const each of piece.text) said += numbers.after(each, piece.kind === "arguments");
    if (piece.last) {
      said += numbers.ended();
      texts.delete(piece.choice);
    }
    return said === piece.text ? { tag: "proceed" } : { tag: "change", val: said };
  },
};
