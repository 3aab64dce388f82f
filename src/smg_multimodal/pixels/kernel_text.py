"""The text of the kernel's WebAssembly module: Pillow's two resampling passes on bytes, the writing of normalised floats, and the
undoing of PNG's row filters.

Above: `kernel`, which compiles it. Below: nothing. What the module needs several times, for rows, registers or loops, is written
once: in what `_each` is given, `#` stands for the number and `@` for the one before it.

Every function reads its job at address 0: 32-bit numbers in the order in which they are named. Addresses are offsets in the one
memory, steps are bytes. Nothing is allocated and nothing is kept between calls.

Pillow's arithmetic: weights are integers of 22 fractional bits; a sum starts at one half (0x200000), is shifted right by 22 and
clipped to a byte. A weight does not fit 16 bits, so it comes as a high part and its 11 low bits; the two dot products are summed
apart and meet before the shift. All sums are exact in 32 bits.

torch's weights fit 16 bits, with fewer bits after the point: the passes for these ("narrow") have one dot product in place of
two, and are told how many bits.
"""

from collections.abc import Iterable, Sequence

__all__ = ["LOOPS", "text"]

LOOPS = 6
"""Loops of `normalise`, one within the other."""


def _each(part: str, numbers: Iterable[int] = range(4)) -> str:
    return "".join(part.replace("#", str(number)).replace("@", str(number - 1)) for number in numbers)


def _function(name: str, job: Sequence[str], locals_: str, body: str) -> str:
    """An exported function whose job begins with these numbers, each in a local of its name."""
    named = "".join(f"(local ${each} i32)" for each in job)
    loads = "".join(f"(local.set ${each} (i32.load offset={4 * at} (local.get $job)))" for at, each in enumerate(job))
    return f'(func (export "{name}") (local $job i32) {named} {locals_} {loads} {body})'


_SUM_LOCALS = _each("(local $h# v128)") + _each("(local $l# v128)")
_SUMS_BEGIN = _each(
    """
    (local.set $h# (v128.const i32x4 0 0 0 0))
    (local.set $l# (v128.const i32x4 0x200000 0x200000 0x200000 0x200000))"""
)
_SUM = "(i32x4.shr_s (i32x4.add (i32x4.shl (local.get $h#) (i32.const 11)) (local.get $l#)) (i32.const 22))"
_NARROW_LOCALS = _each("(local $l# v128)") + "(local $half v128)"
_NARROW_HALF = """(local.set $half (i32x4.splat (i32.shl (i32.const 1) (i32.sub (local.get $bits) (i32.const 1)))))"""
_NARROW_BEGIN = _each("(local.set $l# (local.get $half))")
_NARROW_SUM = "(i32x4.shr_s (local.get $l#) (local.get $bits))"


def _clipped(one: str) -> str:
    """Four registers of sums, of which `one` makes whole numbers, as bytes."""
    return f"""(i8x16.narrow_i16x8_u
    (i16x8.narrow_i32x4_s {_each(one, (0, 1))})
    (i16x8.narrow_i32x4_s {_each(one, (2, 3))}))"""


# Two pixels of four bytes as eight words, channel by channel, for a dot product with pairs of weights: the first two of four, and
# the last two.
_FIRST_TWO = "(v128.const i8x16 0 -1 4 -1 1 -1 5 -1 2 -1 6 -1 3 -1 7 -1)"
_LAST_TWO = "(v128.const i8x16 8 -1 12 -1 9 -1 13 -1 10 -1 14 -1 11 -1 15 -1)"

_FOUR_TAPS = f"""
    (local.set $v (v128.load (local.get $p#)))
    (local.set $w (i8x16.relaxed_swizzle (local.get $v) {_LAST_TWO}))
    (local.set $v (i8x16.relaxed_swizzle (local.get $v) {_FIRST_TWO}))
    (local.set $h# (i32x4.add (i32x4.add (local.get $h#)
      (i32x4.dot_i16x8_s (local.get $v) (local.get $k0))) (i32x4.dot_i16x8_s (local.get $w) (local.get $k1))))
    (local.set $l# (i32x4.add (i32x4.add (local.get $l#)
      (i32x4.dot_i16x8_s (local.get $v) (local.get $k2))) (i32x4.dot_i16x8_s (local.get $w) (local.get $k3))))
    (local.set $p# (i32.add (local.get $p#) (i32.const 16)))"""

_FOUR_NARROW = f"""
    (local.set $v (v128.load (local.get $p#)))
    (local.set $w (i8x16.relaxed_swizzle (local.get $v) {_LAST_TWO}))
    (local.set $v (i8x16.relaxed_swizzle (local.get $v) {_FIRST_TWO}))
    (local.set $l# (i32x4.add (i32x4.add (local.get $l#)
      (i32x4.dot_i16x8_s (local.get $v) (local.get $k0))) (i32x4.dot_i16x8_s (local.get $w) (local.get $k1))))
    (local.set $p# (i32.add (local.get $p#) (i32.const 16)))"""

_TWO_NARROW = f"""
    (local.set $v (i8x16.relaxed_swizzle (v128.load64_zero (local.get $p#)) {_FIRST_TWO}))
    (local.set $l# (i32x4.add (local.get $l#) (i32x4.dot_i16x8_s (local.get $v) (local.get $k0))))"""

_TWO_TAPS = f"""
    (local.set $v (i8x16.relaxed_swizzle (v128.load64_zero (local.get $p#)) {_FIRST_TWO}))
    (local.set $h# (i32x4.add (local.get $h#) (i32x4.dot_i16x8_s (local.get $v) (local.get $k0))))
    (local.set $l# (i32x4.add (local.get $l#) (i32x4.dot_i16x8_s (local.get $v) (local.get $k2))))"""


def _splats(*registers: int) -> str:
    """Pairs of weights from `$at` on, each repeated for the four channels, in these registers."""
    load = "(local.set $k{} (v128.load32_splat offset={} (local.get $at)))"
    return "".join(load.format(register, 4 * place) for place, register in enumerate(registers))


_SEPARATED = """;; the four rows' channels taken apart
        (local.set $row (i32.const 4))
        (local.set $from (local.get $lines))
        (loop $split
          (local.set $to (local.get $dst))
          (local.set $end (i32.add (local.get $dst) (local.get $columns)))
          (loop $four
            (local.set $v (i8x16.relaxed_swizzle (v128.load (local.get $from))
              (v128.const i8x16 0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15)))
            (v128.store32_lane 0 (local.get $to) (local.get $v))
            (v128.store32_lane 1 (i32.add (local.get $to) (local.get $plane)) (local.get $v))
            (v128.store32_lane 2 (i32.add (i32.add (local.get $to) (local.get $plane)) (local.get $plane)) (local.get $v))
            (local.set $from (i32.add (local.get $from) (i32.const 16)))
            (br_if $four (i32.lt_u (local.tee $to (i32.add (local.get $to) (i32.const 4))) (local.get $end))))
          (local.set $dst (i32.add (local.get $dst) (local.get $step)))
          (br_if $split (local.tee $row (i32.sub (local.get $row) (i32.const 1)))))"""


def _one_column(*, narrow: bool) -> str:
    """One pixel of each of the four rows, in `$v`."""
    begin, clipped = (_NARROW_BEGIN, _clipped(_NARROW_SUM)) if narrow else (_SUMS_BEGIN, _clipped(_SUM))
    four, two = (_FOUR_NARROW, _TWO_NARROW) if narrow else (_FOUR_TAPS, _TWO_TAPS)
    four = _splats(*range(2 if narrow else 4)) + _each(four)
    two = _splats(*((0,) if narrow else (0, 2))) + _each(two)
    size = 8 if narrow else 16
    return f"""{begin}
          (local.set $q (local.get $quads))
          (if (local.get $quads) (then (loop $quad
            {four}
            (local.set $at (i32.add (local.get $at) (i32.const {size})))
            (br_if $quad (local.tee $q (i32.sub (local.get $q) (i32.const 1)))))))
          (if (local.get $pair)
            (then
              {two}
              (local.set $at (i32.add (local.get $at) (i32.const {size // 2})))))
          (local.set $v {clipped})"""


def _horizontal(*, narrow: bool) -> str:
    """Rows of RGBX pixels resampled along their length, four rows at a time, into rows of three planes (all R, all G, all B).

    `weights` has 16 bytes for every four taps: four high parts, four low parts (i16); where `pair` is not 0, 8 for two more. Half
    as many where they are narrow. `starts` has every output column's first tap in bytes. `columns` is a multiple of four. `lines`
    is room for four output rows of RGBX."""
    job = (
        *("src", "stride", "groups", "dst", "step", "plane", "starts"),
        *("weights", "columns", "quads", "lines", "pair", "bits"),
    )
    locals_ = f"""
      (local $x i32) (local $q i32) (local $at i32) (local $line i32) (local $from i32) (local $to i32) (local $row i32)
      (local $end i32)
      {_each("(local $p# i32)")} {_NARROW_LOCALS if narrow else _SUM_LOCALS}
      {_each("(local $k# v128)")} (local $v v128) (local $w v128)"""
    following = "(local.set $p# (i32.add (local.get $p@) (local.get $stride)))"
    stored = "(v128.store32_lane # (local.tee $row (i32.add (local.get $row) (local.get $line))) (local.get $v))"
    body = f"""
      {_NARROW_HALF if narrow else ""}
      (local.set $line (i32.shl (local.get $columns) (i32.const 2)))
      (loop $group
        (local.set $x (i32.const 0))
        (local.set $at (local.get $weights))
        (local.set $to (local.get $lines))
        (loop $column
          (local.set $p0 (i32.add (local.get $src)
            (i32.load (i32.add (local.get $starts) (i32.shl (local.get $x) (i32.const 2))))))
          {_each(following, (1, 2, 3))}
          {_one_column(narrow=narrow)}
          (local.set $row (local.get $to))
          (v128.store32_lane 0 (local.get $row) (local.get $v))
          {_each(stored, (1, 2, 3))}
          (local.set $to (i32.add (local.get $to) (i32.const 4)))
          (br_if $column (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 1))) (local.get $columns))))
        {_SEPARATED}
        (local.set $src (i32.add (local.get $src) (i32.shl (local.get $stride) (i32.const 2))))
        (br_if $group (local.tee $groups (i32.sub (local.get $groups) (i32.const 1)))))"""
    return _function("horizontal_narrow" if narrow else "horizontal", job, locals_, body)


def _dot(half: str, register: int, *, narrow: bool) -> str:
    """Eight bytes of `$c`, as words, times a pair of weights, added to the sums of `register`."""
    words = f"(local.set $e (i16x8.extend_{half}_i8x16_u (local.get $c)))"
    high = "(local.set $h# (i32x4.add (local.get $h#) (i32x4.dot_i16x8_s (local.get $e) (local.get $k0))))"
    low = "(local.set $l# (i32x4.add (local.get $l#) (i32x4.dot_i16x8_s (local.get $e) (local.get $k1))))"
    return words + _each(low if narrow else high + low, (register,))


def _interleaved(first: int) -> str:
    """Eight bytes of one row and of the next, alternating, from the byte `first` on."""
    lanes = " ".join(f"{at} {at + 16}" for at in range(first, first + 8))
    return f"(local.set $c (i8x16.shuffle {lanes} (local.get $v) (local.get $w)))"


def _vertical(*, narrow: bool) -> str:
    """Rows of bytes resampled across each other, whatever the bytes mean. `width` is a multiple of 16 and the step of `dst`.

    `weights` has 8 bytes for every two taps: two high parts, two low parts (i16); half as many where they are narrow. `starts`
    has every output row's first tap in bytes after `src`."""
    job = ("src", "stride", "rows", "dst", "width", "starts", "weights", "pairs", "bits")
    locals_ = f"""
      (local $x i32) (local $q i32) (local $at i32) (local $from i32) (local $first i32)
      {_NARROW_LOCALS if narrow else _SUM_LOCALS}
      (local $k0 v128) (local $k1 v128) (local $v v128) (local $w v128) (local $c v128) (local $e v128)"""
    begin, clipped = (_NARROW_BEGIN, _clipped(_NARROW_SUM)) if narrow else (_SUMS_BEGIN, _clipped(_SUM))
    dots = [_dot(half, register, narrow=narrow) for register, half in enumerate(("low", "high") * 2)]
    body = f"""
      {_NARROW_HALF if narrow else ""}
      (loop $row
        (local.set $first (i32.add (local.get $src) (i32.load (local.get $starts))))
        (local.set $x (i32.const 0))
        (loop $block
          (local.set $from (i32.add (local.get $first) (local.get $x)))
          (local.set $at (local.get $weights))
          {begin}
          (local.set $q (local.get $pairs))
          (loop $pair
            (local.set $v (v128.load (local.get $from)))
            (local.set $w (v128.load (i32.add (local.get $from) (local.get $stride))))
            {_splats(*((1,) if narrow else (0, 1)))}
            {_interleaved(0)} {dots[0]} {dots[1]}
            {_interleaved(8)} {dots[2]} {dots[3]}
            (local.set $from (i32.add (local.get $from) (i32.shl (local.get $stride) (i32.const 1))))
            (local.set $at (i32.add (local.get $at) (i32.const {4 if narrow else 8})))
            (br_if $pair (local.tee $q (i32.sub (local.get $q) (i32.const 1)))))
          (v128.store (i32.add (local.get $dst) (local.get $x)) {clipped})
          (br_if $block (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 16))) (local.get $width))))
        (local.set $dst (i32.add (local.get $dst) (local.get $width)))
        (local.set $starts (i32.add (local.get $starts) (i32.const 4)))
        (local.set $weights (local.get $at))
        (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1)))))"""
    return _function("vertical_narrow" if narrow else "vertical", job, locals_, body)


_RUN = """
    (local.set $x (i32.const 0))
    (if (local.get $table)
      (then
        (local.set $t (i32.add (local.get $table) (local.get $c0)))
        (loop $one
          (local.set $f (f32.load (i32.add (local.get $t)
            (i32.shl (i32.load8_u (i32.add (local.get $s0) (local.get $x))) (i32.const 2)))))
          (local.set $d (i32.add (local.get $d0) (i32.shl (local.get $x) (i32.const 2))))
          (f32.store (local.get $d) (local.get $f))
          (f32.store (i32.add (local.get $d) (local.get $twin)) (local.get $f))
          (br_if $one (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 1))) (local.get $run)))))
      (else
        (local.set $t (i32.add (local.get $constants) (local.get $c0)))
        (local.set $coarse (v128.load32_splat (local.get $t)))
        (local.set $fine (v128.load32_splat offset=4 (local.get $t)))
        (local.set $mean (v128.load32_splat offset=8 (local.get $t)))
        (local.set $std (v128.load32_splat offset=12 (local.get $t)))
        (loop $four
          ;; the last four overlap their predecessors where the run is no multiple of four
          (if (i32.gt_u (local.get $x) (local.get $last)) (then (local.set $x (local.get $last))))
          (local.set $v (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_u (i16x8.extend_low_i8x16_u
            (v128.load32_zero (i32.add (local.get $s0) (local.get $x)))))))
          (local.set $v (f32x4.div
            (f32x4.sub
              (f32x4.add (f32x4.mul (local.get $v) (local.get $coarse)) (f32x4.mul (local.get $v) (local.get $fine)))
              (local.get $mean))
            (local.get $std)))
          (local.set $d (i32.add (local.get $d0) (i32.shl (local.get $x) (i32.const 2))))
          (v128.store (local.get $d) (local.get $v))
          (v128.store (i32.add (local.get $d) (local.get $twin)) (local.get $v))
          (br_if $four (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 4))) (local.get $run))))))"""


def _normalise() -> str:
    """Runs of bytes to runs of floats, in `LOOPS` loops. The job goes on with as many records, innermost first: count, and the
    steps of source, destination and constants.

    A float is (byte * coarse + byte * fine - mean) / std with `constants`' four floats, or, where `table` is not 0, what stands
    there for the byte. It is written at `dst` and `twin` bytes after it. `run` is at least four."""
    job = ("src", "dst", "run", "constants", "table", "twin")
    records = 4 * len(job)
    locals_ = f"""
      (local $x i32) (local $last i32) (local $t i32) (local $d i32) (local $f f32)
      {_each("(local $n# i32) (local $s# i32) (local $d# i32) (local $c# i32)", range(LOOPS))}
      (local $v v128) (local $coarse v128) (local $fine v128) (local $mean v128) (local $std v128)"""
    body = _RUN
    for level in range(LOOPS):
        record = records + 16 * level
        above = "(local.set $s# (local.get $s{0})) (local.set $d# (local.get $d{0})) (local.set $c# (local.get $c{0}))"
        outermost = "(local.set $s# (local.get $src)) (local.set $d# (local.get $dst)) (local.set $c# (i32.const 0))"
        begins = outermost if level == LOOPS - 1 else above.format(level + 1)
        steps = "".join(
            f"(local.set ${name}# (i32.add (local.get ${name}#) (i32.load offset={record + 4 * place} (local.get $job))))"
            for place, name in enumerate("sdc", 1)
        )
        loop = f"""
          (local.set $n# (i32.load offset={record} (local.get $job))) {begins}
          (loop $level# BODY {steps} (br_if $level# (local.tee $n# (i32.sub (local.get $n#) (i32.const 1)))))"""
        body = _each(loop, (level,)).replace("BODY", body)
    return _function("normalise", job, locals_, f"(local.set $last (i32.sub (local.get $run) (i32.const 4))) {body}")


def _moved(name: str, pixel: int) -> str:
    """`$name` with that pixel of four first."""
    lanes = " ".join(str((4 * pixel + each) % 16) for each in range(16))
    return f"(i8x16.shuffle {lanes} (local.get ${name}) (local.get ${name}))"


_SHIFTED = """
    (local.set $v (i8x16.add (local.get $v) (i8x16.shuffle {lanes} (v128.const i32x4 0 0 0 0) (local.get $v))))"""


def _sub() -> str:
    """The sum of all pixels up to each of four, and the last of those before them."""
    made = ""
    for step in (4, 8):
        lanes = " ".join(str(each if each < step else 16 + each - step) for each in range(16))
        made += _SHIFTED.format(lanes=lanes)
    last = " ".join(str(12 + each % 4) for each in range(16))
    return f"""{made}
    (local.set $v (i8x16.add (local.get $v) (local.get $left)))
    (local.set $left (i8x16.shuffle {last} (local.get $v) (local.get $v)))"""


def _in_a_row(width: int) -> str:
    """The first `width` bytes of `$p0` to `$p3`, two and two, in `$v` and `$w`."""
    lanes = " ".join(str(each) for first in (0, 16) for each in range(first, first + width))
    lanes += " 0" * (16 - 2 * width)
    pair = f"(local.set $# (i8x16.shuffle {lanes} (local.get $p@) (local.get $p+)))"
    return "".join(
        pair.replace("#", name).replace("@", str(first)).replace("+", str(first + 1))
        for name, first in (("v", 0), ("w", 2))
    )


def _average() -> str:
    """Pixel by pixel. The complement of a mean rounded down is the mean, rounded up, of the complements."""
    made = "(local.set $u (v128.not (local.get $u)))"
    for pixel in range(4):
        made += f"""
    (local.set $p{pixel} (local.tee $left (i8x16.sub
      (i8x16.avgr_u (local.get $left) {_moved("u", pixel)}) {_moved("v", pixel)})))"""
    lanes = "0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23"
    return f"""{made} {_in_a_row(4)}
    (local.set $v (v128.not (i8x16.shuffle {lanes} (local.get $v) (local.get $w))))"""


def _paeth() -> str:
    """Pixel by pixel, in words: whichever of left, upper and upper left is nearest to left + upper - upper left."""
    made = ""
    for pixel in range(4):
        made += f"""
    (local.set $b (i16x8.extend_low_i8x16_u {_moved("u", pixel)}))
    (local.set $e (i16x8.sub (local.get $b) (local.get $c)))
    (local.set $d (i16x8.sub (local.get $left) (local.get $c)))
    (local.set $near (i16x8.min_s
      (i16x8.min_s (local.tee $pa (i16x8.abs (local.get $e))) (local.tee $pb (i16x8.abs (local.get $d))))
      (i16x8.abs (i16x8.add (local.get $d) (local.get $e)))))
    (local.set $p{pixel} (local.tee $left (v128.and (v128.const i16x8 255 255 255 255 255 255 255 255) (i16x8.add
      (i16x8.extend_low_i8x16_u {_moved("v", pixel)})
      (v128.bitselect (local.get $left)
        (v128.bitselect (local.get $b) (local.get $c) (i16x8.eq (local.get $near) (local.get $pb)))
        (i16x8.eq (local.get $near) (local.get $pa)))))))
    (local.set $c (local.get $b))"""
    return f"""{made} {_in_a_row(8)}
    (local.set $v (i8x16.narrow_i16x8_u (local.get $v) (local.get $w)))"""


def _unfilter() -> str:
    """Filtered rows of a PNG of three or four bytes a pixel, to rows of four bytes a pixel; a fourth that is made is 255.

    `step` is from row to row of `src`, `stride`, four times `width`, from row to row of `dst`, before which lies the row above.
    A row's first byte is its filter, at most 4. Up to 12 bytes are written behind the last row."""
    job = ("src", "rows", "width", "dst", "stride", "step", "bytes")
    vectors = (
        "spread",
        "opaque",
        "v",
        "w",
        "u",
        "left",
        "b",
        "c",
        "d",
        "e",
        "pa",
        "pb",
        "near",
        "p0",
        "p1",
        "p2",
        "p3",
    )
    locals_ = "(local $s i32) (local $t i32) (local $end i32) (local $filter i32) (local $four i32)"
    locals_ += "".join(f"(local ${each} v128)" for each in vectors)

    def row(number: int, work: str, *, begins: str = "") -> str:
        return f"""
        (if (i32.eq (local.get $filter) (i32.const {number})) (then {begins} (loop $pixels{number}
          (local.set $v (i8x16.relaxed_swizzle (v128.load (local.get $s)) (local.get $spread)))
          {work}
          (v128.store (local.get $t) (v128.or (local.get $v) (local.get $opaque)))
          (local.set $s (i32.add (local.get $s) (local.get $four)))
          (br_if $pixels{number}
            (i32.lt_u (local.tee $t (i32.add (local.get $t) (i32.const 16))) (local.get $end))))))"""

    upper = "(local.set $u (v128.load (i32.sub (local.get $t) (local.get $stride))))"
    nothing = "(local.set $left (v128.const i32x4 0 0 0 0)) (local.set $c (v128.const i32x4 0 0 0 0))"
    everything = "(local.set $left (v128.const i32x4 -1 -1 -1 -1))"
    body = f"""
      (local.set $four (i32.shl (local.get $bytes) (i32.const 2)))
      (local.set $spread (v128.const i8x16 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15))
      (if (i32.eq (local.get $bytes) (i32.const 3)) (then
        (local.set $spread (v128.const i8x16 0 1 2 -1 3 4 5 -1 6 7 8 -1 9 10 11 -1))
        (local.set $opaque (v128.const i32x4 0xff000000 0xff000000 0xff000000 0xff000000))))
      (loop $row
        (local.set $filter (i32.load8_u (local.get $src)))
        (local.set $s (i32.add (local.get $src) (i32.const 1)))
        (local.set $t (local.get $dst))
        (local.set $end (i32.add (local.get $dst) (local.get $stride)))
        {row(0, "")}
        {row(1, _sub(), begins=nothing)}
        {row(2, upper + "(local.set $v (i8x16.add (local.get $v) (local.get $u)))")}
        {row(3, upper + _average(), begins=everything)}
        {row(4, upper + _paeth(), begins=nothing)}
        (local.set $src (i32.add (local.get $src) (local.get $step)))
        (local.set $dst (local.get $end))
        (br_if $row (local.tee $rows (i32.sub (local.get $rows) (i32.const 1)))))"""
    return _function("unfilter", job, locals_, body)


def text(pages: int) -> str:
    """The module, with a memory of `pages` of 64 KiB that never grows."""
    passes = [part for narrow in (False, True) for part in (_horizontal(narrow=narrow), _vertical(narrow=narrow))]
    functions = (*passes, _normalise(), _unfilter())
    return f'(module (memory (export "memory") {pages} {pages}) {" ".join(functions)})'
