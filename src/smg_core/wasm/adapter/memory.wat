;; The memory of the adapter (adapter.c): texts and lists are copied into it by the component model, which asks `take` for room.
;; A call of `allow-...` says how much room the answer that comes next may take. BODY, PIECE and HEAD are numbers of bytes.
(module
  (memory (export "memory") 2)
  (global $at (mut i32) (i32.const 0x10000))
  (global $end (mut i32) (i32.const 0x7fff0000))
  (global $last (mut i32) (i32.const 0))
  ;; The names of these two are in the error, which `running` puts into words.
  (func $answer_beyond_its_bounds (export "beyond") unreachable)
  (func $no_memory_left unreachable)

  ;; Room for so many bytes, with 16 free bytes before them. What was taken last grows and shrinks where it is.
  (func (export "take") (param $old i32) (param $was i32) (param $align i32) (param $size i32) (result i32)
    (local $first i32) (local $after i64) (local $have i64)
    (local.set $first (i32.add (global.get $at) (i32.const 16)))
    (if (i32.and (i32.ne (local.get $was) (i32.const 0)) (i32.eq (local.get $old) (global.get $last)))
      (then (local.set $first (local.get $old))))
    (local.set $after
      (i64.and
        (i64.add (i64.add (i64.extend_i32_u (local.get $first)) (i64.extend_i32_u (local.get $size))) (i64.const 15))
        (i64.const -16)))
    (if (i64.gt_u (local.get $after) (i64.extend_i32_u (global.get $end))) (then (call $answer_beyond_its_bounds)))
    (local.set $have (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 16)))
    (if (i64.gt_u (local.get $after) (local.get $have))
      (then
        (if
          (i32.eq
            (memory.grow
              (i32.wrap_i64
                (i64.shr_u
                  (i64.add (i64.sub (local.get $after) (local.get $have)) (i64.const 0xffff))
                  (i64.const 16))))
            (i32.const -1))
          (then (call $no_memory_left)))))
    (global.set $at (i32.wrap_i64 (local.get $after)))
    (global.set $last (local.get $first))
    (if (i32.and (i32.ne (local.get $was) (i32.const 0)) (i32.ne (local.get $old) (local.get $first)))
      (then
        (memory.copy
          (local.get $first)
          (local.get $old)
          (select (local.get $was) (local.get $size) (i32.lt_u (local.get $was) (local.get $size))))))
    (local.get $first))

  (func $allow (param $room i32) (global.set $end (i32.add (global.get $at) (local.get $room))))
  (func (export "allow_head") (call $allow (i32.const HEAD)))
  (func (export "allow_piece") (call $allow (i32.const PIECE)))
  (func (export "allow_body") (call $allow (i32.const BODY)))
  (func $allow_all (export "allow_all") (global.set $end (i32.const 0x7fff0000)))
  ;; Characters that the headers of one change may have, with 4 for each of them.
  (func (export "most_of_headers") (result i32) (i32.const HEADERS))
  (func $free_all (export "free_all") (call $allow_all) (global.set $at (i32.const 0x10000)) (global.set $last (i32.const 0)))
  (func (export "answered") (param i32) (call $free_all))

  ;; In the place of the functions that a component does not have; nobody calls them.
  (func (export "no_configure") (param i32 i32 i32) unreachable)
  (func (export "no_begin") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) unreachable)
  (func (export "no_finish") unreachable)
  (func (export "no_request_head") (param i32 i32 i32 i32 i32 i32 i32 i32 i32) unreachable)
  (func (export "no_request_body") (param i32 i32 i32) unreachable)
  (func (export "no_response_head") (param i32 i32 i32 i32) unreachable)
  (func (export "no_wanted") (result i32) unreachable)
  (func (export "no_piece") (param i32 i32 i32 i32 i32 i32) unreachable)
  (func (export "no_end") (param i32 i32 i32 f64 i32 i64 i32 i64 i32 i64 i32) unreachable)
  (func (export "no_error") (param i32 i32 i32 i32 i32 i32) unreachable)
  (func (export "no_store") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) unreachable)
  (func (export "no_stored") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) unreachable)
  (func (export "no_old_request") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32) unreachable)
  (func (export "no_old_response") (param i32 i32 i32 i32 i32 i32) unreachable))
