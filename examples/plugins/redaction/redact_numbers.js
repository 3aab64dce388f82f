// Takes long numbers out of what a model says, also those that are cut over several pieces: see redact_numbers.py, which does the
// same. Built by: smg-gateway plugin build redact_numbers.js, into 1.6 MB, most of which is an interpreter of JavaScript. It needs
// more than the default of its entry: memory_mib: 32, stack_kib: 1024.
const FEWEST = 7, LONGEST = 64;
const ZEROS = [0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0xf20, 0x1040,
  0x17e0, 0x1810, 0xff10, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6];
const DIGITS = new Set(ZEROS.flatMap((zero) => [...Array(10).keys()].map((digit) => String.fromCodePoint(zero + digit))));
const BETWEEN = new Set(" .()-/,_\t\n\r\u00a0\u00ad\u2007\u2009\u200a\u202f\u3000\u2010\u2011\u2012\u2013\u2014\u2212");
const isDigit = (each) => DIGITS.has(each);
const isBetween = (each, masks) => BETWEEN.has(each) && !(masks && each === ",");
let texts = new Map();

class Numbers {
  held = []; // characters
  inside = false;

  ended() {
    const held = this.held.join("");
    this.held = [];
    this.inside = false;
    return held;
  }

  after(each, masks) {
    if (!isDigit(each) && !(isBetween(each, masks) && (this.held.length || this.inside))) return this.ended() + each;
    if (this.inside && masks) return isDigit(each) ? "9" : each;
    this.held.push(each);
    if (this.inside) {
      if (isDigit(each)) this.held = [];
      return this.held.length > LONGEST ? this.ended() : "";
    }
    if (this.held.filter(isDigit).length >= FEWEST) {
      const number = this.held;
      this.held = [];
      this.inside = true;
      return masks ? number.map((one) => (isDigit(one) ? "9" : one)).join("") : "[number]";
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
