/* A plugin of SMG's contract (smg_gateway.wit), with no help of ours: it puts the request's id and time into headers, makes the
 * letters of bodies capitals, rejects bodies that begin with '!', and gives answers the status 202. */
#include <stddef.h>
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(name)))
typedef struct { const char *at; size_t size; } text;
typedef struct { text name, value; } header;
struct option_u16 { uint8_t present; uint16_t value; };
struct list { const void *at; size_t size; };
struct option_list { uint8_t present; struct list value; };
static struct {
  uint8_t what;
  union {
    uint16_t reject;
    struct { struct option_u16 status; struct list set, add, remove; struct option_list body; } modify;
  };
} answer;

extern unsigned char __heap_base;
static uintptr_t from;
EXPORT("cabi_realloc") void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  if (!from) from = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
  uintptr_t at = from, have = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
  from = at + ((size + 15) & ~(size_t)15);
  if (from > have && __builtin_wasm_memory_grow(0, (from - have + 0xffff) >> 16) == (size_t)-1) __builtin_trap();
  return (void *)at;
}

static void capitals(const char *body, size_t size) {
  char *made = cabi_realloc(0, 0, 1, size);
  for (size_t i = 0; i < size; i++) made[i] = body[i] >= 'a' && body[i] <= 'z' ? body[i] - 32 : body[i];
  answer.modify.body = (struct option_list){1, {made, size}};
}

EXPORT("smg:gateway/middleware-on-request#on-request")
void *on_request(const char *m, size_t mn, const char *p, size_t pn, const char *q, size_t qn, header *h, size_t hn,
                 const char *body, size_t size, const char *id, size_t idn, uint64_t now) {
  static header set[2];
  static char digits[20];
  if (size && body[0] == '!') {
    answer.what = 1;
    answer.reject = 403;
    return &answer;
  }
  size_t n = sizeof digits;
  do { digits[--n] = '0' + now % 10; now /= 10; } while (now);
  set[0] = (header){{"x-seen", 6}, {id, idn}};
  set[1] = (header){{"x-now", 5}, {digits + n, sizeof digits - n}};
  answer.what = 2;
  answer.modify.set = (struct list){set, 2};
  capitals(body, size);
  return &answer;
}

EXPORT("smg:gateway/middleware-on-response#on-response")
void *on_response(int status, header *h, size_t hn, const char *body, size_t size) {
  if (!size) return &answer; /* nothing was set: continue */
  answer.what = 2;
  answer.modify.status = (struct option_u16){1, 202};
  capitals(body, size);
  return &answer;
}
