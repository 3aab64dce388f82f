/* Stands between the gateway and a component: what the gateway passes is one text, and so is what it gets. A text costs the library
 * that runs components little; each string of a list costs it memory of its own and half a microsecond.
 *
 * The fields of a call end with a zero each; in a field a zero is written as the bytes 1 1, and a one as 1 2. The last text of a
 * call is as it is. `fields.py` writes and reads them. What a component answers is copied into the memory of this module
 * (memory.wat) by the component model's own adapters, which ask `take` for room: an answer beyond its bounds ends the call before
 * the gateway sees any of it. Built by tools/build_adapter.sh. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(name)))
#define MEMORY(name) __attribute__((import_module("memory"), import_name(name)))
#define GUEST(name) __attribute__((import_module("guest"), import_name(name)))

typedef struct { const char *at; size_t size; } text;
typedef struct { text name, value; } header;
typedef struct { const header *at; size_t size; } headers;
typedef struct { const text *at; size_t size; } texts;
typedef struct { uint8_t present; uint16_t value; } option_u16;
typedef struct { uint8_t present; text value; } option_text;
typedef struct { uint16_t status; text message; } rejection;
#define FLAT const char *, size_t
#define PUT(text) (text).at, (text).size

MEMORY("take") void *take(void *old, size_t was, size_t align, size_t size);
MEMORY("beyond") void beyond(void);
MEMORY("allow_head") void allow_head(void);
MEMORY("allow_piece") void allow_piece(void);
MEMORY("allow_body") void allow_body(void);
MEMORY("allow_all") void allow_all(void);
MEMORY("most_of_headers") size_t most_of_headers(void);
MEMORY("free_all") void free_all(void);

/* The first zero or one between two places, eight bytes at a time; the end where there is none. */
static const char *first_special(const char *at, const char *end) {
  const uint64_t ones = 0x0101010101010101;
  for (; end - at >= 8; at += 8) {
    uint64_t eight;
    __builtin_memcpy(&eight, at, 8);
    eight &= ~ones; /* zeros and ones are zeros now */
    uint64_t found = (eight - ones) & ~eight & (ones << 7); /* of the first zero, the highest bit of its byte is the lowest here */
    if (found) return at + __builtin_ctzll(found) / 8;
  }
  while (at < end && (uint8_t)*at > 1) at++;
  return at;
}

/* -------------------------------------------------------------------------------------------------- what is passed in */

typedef struct { char *at, *end; } fields;

/* The next field; escaped bytes are put right where they are. */
static text next(fields *from) {
  char *first = from->at, *at = (char *)first_special(first, from->end), *to = at;
  while (at < from->end && *at) {
    if (*at == 1 && at + 1 < from->end) *to++ = *++at - 1;
    else *to++ = *at;
    at++;
  }
  from->at = at < from->end ? at + 1 : at;
  return (text){first, to - first};
}

static uint64_t number(text said) {
  uint64_t n = 0;
  for (size_t i = 0; i < said.size; i++) n = n * 10 + (said.at[i] - '0');
  return n;
}

static uint64_t next_number(fields *from) { return number(next(from)); }
static text rest(fields *from) { return (text){from->at, from->end - from->at}; }

static headers next_headers(fields *from) {
  size_t count = next_number(from);
  header *all = take(0, 0, 4, count * sizeof(header));
  for (size_t i = 0; i < count; i++) {
    all[i].name = next(from);
    all[i].value = next(from);
  }
  return (headers){all, count};
}

/* ------------------------------------------------------------------------------------------------- what is passed out */

static text answer;

static void *said(const char *at, size_t size) {
  answer = (text){at, size};
  return &answer;
}

static void *proceed(void) { return said("p", 1); }

/* A letter, and a number if there is one, before a text that is in the memory already: `take` leaves room there. */
static void *marked(char letter, int32_t n, text behind) {
  char *first = behind.size ? (char *)behind.at : take(0, 0, 1, 0), *at = first;
  if (n >= 0) {
    *--at = 0;
    do { *--at = '0' + n % 10; n /= 10; } while (n);
  }
  *--at = letter;
  return said(at, behind.size + (first - at));
}

static void *refused(rejection why) { return marked('r', why.status, why.message); }

static char *put(char *to, text said) {
  const char *at = said.at, *end = said.at + said.size;
  while (at < end) {
    const char *special = first_special(at, end);
    __builtin_memcpy(to, at, special - at);
    to += special - at;
    at = special;
    if (at < end) *to++ = 1, *to++ = *at++ + 1;
  }
  *to++ = 0;
  return to;
}

static char *put_number(char *to, size_t n) {
  char digits[10];
  size_t count = 0;
  do { digits[count++] = '0' + n % 10; n /= 10; } while (n);
  while (count) *to++ = digits[--count];
  *to++ = 0;
  return to;
}

static char *put_status(char *to, option_u16 said) {
  if (said.present) return put_number(to, said.value);
  *to++ = 0;
  return to;
}

static char *put_option(char *to, option_text said) {
  if (said.present) {
    *to++ = '+';
    return put(to, said.value);
  }
  *to++ = 0;
  return to;
}

static char *put_headers(char *to, headers said) {
  for (size_t i = 0; i < said.size; i++) to = put(put(to, said.at[i].name), said.at[i].value);
  return to;
}

static char *put_texts(char *to, texts said) {
  for (size_t i = 0; i < said.size; i++) to = put(to, said.at[i]);
  return to;
}

/* Bytes that a text takes at most as a field, and the characters that it has. */
static size_t size_of(text said) { return 2 * said.size + 1; }

static size_t characters(text said) {
  size_t count = 0;
  for (size_t i = 0; i < said.size; i++) count += (said.at[i] & 0xc0) != 0x80;
  return count;
}

/* Bytes that headers take at most as fields. Ends the call where there are more characters than `*left`, with 4 for each header. */
static size_t bounded_headers(headers said, size_t *left) {
  size_t size = 0;
  for (size_t i = 0; i < said.size; i++) {
    size_t count = characters(said.at[i].name) + characters(said.at[i].value) + 4;
    if (count > *left) beyond();
    *left -= count;
    size += size_of(said.at[i].name) + size_of(said.at[i].value);
  }
  return size;
}

static size_t bounded_texts(texts said, size_t *left) {
  size_t size = 0;
  for (size_t i = 0; i < said.size; i++) {
    size_t count = characters(said.at[i]) + 4;
    if (count > *left) beyond();
    *left -= count;
    size += size_of(said.at[i]);
  }
  return size;
}

typedef struct { headers set, add; texts remove; option_u16 status; option_text tenant, principal; } change;
typedef struct { uint8_t what; union { change change; rejection reject; }; } head_verdict;
typedef struct { uint8_t what; union { text change; rejection reject; }; } text_verdict;
typedef struct { uint8_t what; union { headers change; rejection reject; }; } storage_verdict;
typedef struct { uint8_t what; rejection reject; } error_verdict;
enum { PROCEED, CHANGE, REJECT };

static void *of_head(const head_verdict *verdict) {
  allow_all();
  if (verdict->what == PROCEED) return proceed();
  if (verdict->what == REJECT) return refused(verdict->reject);
  const change *it = &verdict->change;
  size_t left = most_of_headers(), size = 64;
  size += bounded_headers(it->set, &left) + bounded_headers(it->add, &left) + bounded_texts(it->remove, &left);
  if (it->tenant.present) size += size_of(it->tenant.value);
  if (it->principal.present) size += size_of(it->principal.value);
  char *made = take(0, 0, 1, size), *to = made;
  *to++ = 'c';
  to = put_option(put_option(put_status(to, it->status), it->tenant), it->principal);
  to = put_number(put_number(to, it->set.size), it->add.size);
  to = put_texts(put_headers(put_headers(to, it->set), it->add), it->remove);
  return said(made, to - made);
}

static void *of_text(const text_verdict *verdict) {
  allow_all();
  if (verdict->what == PROCEED) return proceed();
  return verdict->what == REJECT ? refused(verdict->reject) : marked('c', -1, verdict->change);
}

/* --------------------------------------------------------------------------------------------------------------- hooks */

typedef struct { uint8_t bad; text why; } setup_answer;
GUEST("configure") void guest_configure(FLAT, setup_answer *);
EXPORT("configure") void *configure(char *at, size_t size) {
  setup_answer result;
  allow_head();
  guest_configure(at, size, &result);
  allow_all();
  return result.bad ? marked('b', -1, result.why) : said("g", 1);
}

GUEST("begin") void guest_begin(FLAT, FLAT, FLAT, FLAT, FLAT, FLAT, FLAT);
EXPORT("begin") void begin(char *at, size_t size) {
  fields from = {at, at + size};
  text it[7];
  for (size_t i = 0; i < 7; i++) it[i] = next(&from);
  guest_begin(PUT(it[0]), PUT(it[1]), PUT(it[2]), PUT(it[3]), PUT(it[4]), PUT(it[5]), PUT(it[6]));
  free_all();
}

GUEST("finish") void guest_finish(void);
EXPORT("finish") void finish(void) { guest_finish(); }

GUEST("request_head") void guest_request_head(FLAT, FLAT, FLAT, const header *, size_t, head_verdict *);
EXPORT("request_head") void *request_head(char *at, size_t size) {
  fields from = {at, at + size};
  text method = next(&from), path = next(&from), query = next(&from);
  headers all = next_headers(&from);
  head_verdict verdict;
  allow_head();
  guest_request_head(PUT(method), PUT(path), PUT(query), PUT(all), &verdict);
  return of_head(&verdict);
}

GUEST("request_body") void guest_request_body(FLAT, text_verdict *);
EXPORT("request_body") void *request_body(char *at, size_t size) {
  text_verdict verdict;
  allow_body();
  guest_request_body(at, size, &verdict);
  return of_text(&verdict);
}

GUEST("response_head") void guest_response_head(int, const header *, size_t, head_verdict *);
EXPORT("response_head") void *response_head(char *at, size_t size) {
  fields from = {at, at + size};
  int status = next_number(&from);
  headers all = next_headers(&from);
  head_verdict verdict;
  allow_head();
  guest_response_head(status, PUT(all), &verdict);
  return of_head(&verdict);
}

GUEST("wanted") int guest_wanted(void);
EXPORT("wanted") void *wanted(void) { return marked('w', guest_wanted(), (text){0, 0}); }

GUEST("piece") void guest_piece(FLAT, int, int, int, text_verdict *);
EXPORT("piece") void *piece(char *at, size_t size) {
  fields from = {at, at + size};
  int kind = next_number(&from), choice = next_number(&from), last = next_number(&from);
  text it = rest(&from);
  text_verdict verdict;
  allow_piece();
  guest_piece(PUT(it), kind, choice, last, &verdict);
  return of_text(&verdict);
}

typedef struct { int present; int64_t value; } option_u64;

static option_u64 next_option(fields *from) {
  text it = next(from);
  return (option_u64){it.size != 0, number(it)};
}

GUEST("end") void guest_end(int, FLAT, double, int, int64_t, int, int64_t, int, int64_t, text *);
EXPORT("end") void *end(char *at, size_t size) {
  fields from = {at, at + size};
  int status = next_number(&from);
  text outcome = next(&from);
  union { uint64_t bits; double value; } seconds = {next_number(&from)};
  option_u64 a = next_option(&from), b = next_option(&from), c = next_option(&from);
  text behind;
  allow_piece();
  guest_end(status, PUT(outcome), seconds.value, a.present, a.value, b.present, b.value, c.present, c.value, &behind);
  return said(behind.at, behind.size);
}

GUEST("error") void guest_error(int, FLAT, FLAT, error_verdict *);
EXPORT("error") void *error(char *at, size_t size) {
  fields from = {at, at + size};
  int status = next_number(&from);
  text code = next(&from), message = next(&from);
  error_verdict verdict;
  allow_head();
  guest_error(status, PUT(code), PUT(message), &verdict);
  allow_all();
  return verdict.what ? refused(verdict.reject) : proceed();
}

GUEST("store") void guest_store(FLAT, FLAT, FLAT, FLAT, FLAT, const header *, size_t, storage_verdict *);
EXPORT("store") void *store(char *at, size_t size) {
  fields from = {at, at + size};
  text it[5];
  for (size_t i = 0; i < 5; i++) it[i] = next(&from);
  headers all = next_headers(&from);
  storage_verdict verdict;
  allow_body();
  guest_store(PUT(it[0]), PUT(it[1]), PUT(it[2]), PUT(it[3]), PUT(it[4]), PUT(all), &verdict);
  if (verdict.what == CHANGE && verdict.change.size > all.size) beyond(); /* a change of texts that the call does not have */
  allow_all();
  if (verdict.what == PROCEED) return proceed();
  if (verdict.what == REJECT) return refused(verdict.reject);
  size_t room = 16;
  for (size_t i = 0; i < verdict.change.size; i++)
    room += size_of(verdict.change.at[i].name) + size_of(verdict.change.at[i].value);
  char *made = take(0, 0, 1, room), *to = made;
  *to++ = 'c';
  to = put_headers(to, verdict.change);
  return said(made, to - made);
}

GUEST("stored") void guest_stored(FLAT, FLAT, FLAT, FLAT, FLAT, const header *, size_t);
EXPORT("stored") void stored(char *at, size_t size) {
  fields from = {at, at + size};
  text it[5];
  for (size_t i = 0; i < 5; i++) it[i] = next(&from);
  headers all = next_headers(&from);
  guest_stored(PUT(it[0]), PUT(it[1]), PUT(it[2]), PUT(it[3]), PUT(it[4]), PUT(all));
  free_all();
}

/* ------------------------------------------------------------------------------------------------------- smg:gateway */

typedef struct {
  uint8_t what; /* continue, reject or modify */
  union {
    uint16_t reject;
    struct { option_u16 status; headers set, add; texts remove; option_text body; } modify;
  };
} action;

static void *of_action(const action *verdict) {
  allow_all();
  if (verdict->what == 0) return proceed();
  if (verdict->what == 1) return marked('r', verdict->reject, (text){0, 0});
  size_t left = most_of_headers(), size = 64;
  size += bounded_headers(verdict->modify.set, &left) + bounded_headers(verdict->modify.add, &left);
  size += bounded_texts(verdict->modify.remove, &left);
  text body = verdict->modify.body.present ? verdict->modify.body.value : (text){0, 0};
  char *made = take(0, 0, 1, size + body.size), *to = made;
  *to++ = 'c';
  to = put_status(to, verdict->modify.status);
  to = put_number(to, verdict->modify.set.size);
  to = put_number(to, verdict->modify.add.size);
  to = put_number(to, verdict->modify.remove.size);
  to = put_number(to, verdict->modify.body.present);
  to = put_texts(put_headers(put_headers(to, verdict->modify.set), verdict->modify.add), verdict->modify.remove);
  __builtin_memcpy(to, body.at, body.size);
  return said(made, to + body.size - made);
}

GUEST("old_request")
void guest_old_request(FLAT, FLAT, FLAT, const header *, size_t, FLAT, FLAT, uint64_t, action *);
EXPORT("old_request") void *old_request(char *at, size_t size) {
  fields from = {at, at + size};
  text method = next(&from), path = next(&from), query = next(&from), id = next(&from);
  uint64_t now = next_number(&from);
  headers all = next_headers(&from);
  text body = rest(&from);
  action verdict;
  allow_body();
  guest_old_request(PUT(method), PUT(path), PUT(query), PUT(all), PUT(body), PUT(id), now, &verdict);
  return of_action(&verdict);
}

GUEST("old_response") void guest_old_response(int, const header *, size_t, FLAT, action *);
EXPORT("old_response") void *old_response(char *at, size_t size) {
  fields from = {at, at + size};
  int status = next_number(&from);
  headers all = next_headers(&from);
  text body = rest(&from);
  action verdict;
  allow_body();
  guest_old_response(status, PUT(all), PUT(body), &verdict);
  return of_action(&verdict);
}
