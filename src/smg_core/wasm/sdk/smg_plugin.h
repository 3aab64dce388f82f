/* A plugin of the gateway in C: define the hooks that you want, then include nothing else.
 *
 *   #define SMG_PIECES            the hooks: SMG_SETUP, SMG_EXCHANGE, SMG_REQUEST_HEAD, SMG_REQUEST_BODY,
 *   #include "smg_plugin.h"       SMG_RESPONSE_HEAD, SMG_PIECES, SMG_END, SMG_ERROR, SMG_STORAGE; imports: SMG_CLOCK, SMG_RANDOM
 *
 * and write the functions whose prototypes are below. Texts are not terminated by a zero. What a hook is shown, and what
 * `smg_alloc` gives, lives until that hook's answer was read; keep longer things in static variables. Build it with
 * `smg-gateway plugin build FILE.c`. The layout of arguments and answers is the canonical ABI of the component model for
 * plugin.wit. */
#ifndef SMG_PLUGIN_H
#define SMG_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMG_EXPORT(name) __attribute__((export_name(name)))
#define SMG_IMPORT(from, name) __attribute__((import_module(from), import_name(name)))

typedef struct { const char *at; size_t size; } smg_text;
typedef struct { smg_text name, value; } smg_header;
typedef struct { smg_header *at; size_t size; } smg_headers;
typedef struct { smg_text *at; size_t size; } smg_texts;

#define SMG_TEXT(literal) ((smg_text){(literal), sizeof(literal) - 1})

/* ------------------------------------------------------------------------------------------------------------ memory */

void *smg_alloc(size_t size);

extern unsigned char __heap_base;
static uintptr_t smg_free_from = 0;

void *smg_alloc(size_t size) {
  if (!smg_free_from) smg_free_from = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
  uintptr_t at = smg_free_from, end = at + ((size + 15) & ~(size_t)15);
  uintptr_t have = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
  if (end < at) __builtin_trap();
  if (end > have && __builtin_wasm_memory_grow(0, (end - have + 0xffff) >> 16) == (size_t)-1) __builtin_trap();
  smg_free_from = end;
  return (void *)at;
}

SMG_EXPORT("cabi_realloc") void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  char *made = smg_alloc(size);
  for (size_t i = 0; i < old_size && i < size; i++) made[i] = ((char *)old)[i];
  return made;
}

static void smg_free_all(void) { smg_free_from = 0; }

/* -------------------------------------------------------------------------------------------------------------- host */

enum smg_level { SMG_DEBUG, SMG_INFO, SMG_WARNING, SMG_ERROR_LEVEL };
SMG_IMPORT("smg-sdk:plugin/host@1.0.0", "log") void smg_log_raw(int level, const char *at, size_t size);
SMG_IMPORT("smg-sdk:plugin/host@1.0.0", "count") void smg_count_raw(const char *at, size_t size, double by);
static inline void smg_log(enum smg_level level, smg_text said) { smg_log_raw(level, said.at, said.size); }
static inline void smg_count(smg_text name, double by) { smg_count_raw(name.at, name.size, by); }
#ifdef SMG_CLOCK
SMG_IMPORT("smg-sdk:plugin/clock@1.0.0", "now") uint64_t smg_now(void);
#endif
#ifdef SMG_RANDOM
SMG_IMPORT("smg-sdk:plugin/random@1.0.0", "number") uint64_t smg_random(void);
#endif

/* ---------------------------------------------------------------------------------------------------------- verdicts */

typedef struct { uint8_t present; uint16_t value; } smg_status;
typedef struct { uint8_t present; smg_text value; } smg_option;
typedef struct { uint16_t status; smg_text message; } smg_rejection;
typedef struct { smg_headers set, add; smg_texts remove; smg_status status; smg_option tenant, principal; } smg_change;
enum smg_decision { SMG_PROCEED = 0, SMG_CHANGE = 1, SMG_REJECT = 2 };
typedef struct { uint8_t what; union { smg_change change; smg_rejection reject; }; } smg_head_verdict;
typedef struct { uint8_t what; union { smg_text change; smg_rejection reject; }; } smg_text_verdict;
typedef struct { uint8_t what; smg_rejection reject; } smg_error_verdict; /* what: 0 proceed, 1 reject */

static inline smg_text_verdict smg_proceed(void) { return (smg_text_verdict){.what = SMG_PROCEED}; }
static inline smg_text_verdict smg_replace(smg_text text) { return (smg_text_verdict){.what = SMG_CHANGE, .change = text}; }
static inline smg_text_verdict smg_refuse(uint16_t status, smg_text why) {
  return (smg_text_verdict){.what = SMG_REJECT, .reject = {status, why}};
}
static inline smg_head_verdict smg_head_proceed(void) { return (smg_head_verdict){.what = SMG_PROCEED}; }
static inline smg_head_verdict smg_head_refuse(uint16_t status, smg_text why) {
  return (smg_head_verdict){.what = SMG_REJECT, .reject = {status, why}};
}

/* ------------------------------------------------------------------------------------------------------------- hooks */

#define SMG_POST(name) SMG_EXPORT("cabi_post_" name)

#ifdef SMG_SETUP
/* Returns an error, {0, 0} for a good configuration, which is JSON. */
smg_text configure(smg_text config);
static struct { uint8_t bad; smg_text why; } smg_setup_answer;
SMG_EXPORT("smg-sdk:plugin/setup@1.0.0#configure") void *smg_x_configure(const char *at, size_t size) {
  smg_setup_answer.why = configure((smg_text){at, size});
  smg_setup_answer.bad = smg_setup_answer.why.size != 0;
  return &smg_setup_answer;
}
SMG_POST("smg-sdk:plugin/setup@1.0.0#configure") void smg_p_configure(void *answer) { smg_free_all(); }
#endif

#ifdef SMG_EXCHANGE
typedef struct { smg_text request_id, method, path, route, tenant, principal, model; } smg_about;
void begin(smg_about about);
void finish(void);
SMG_EXPORT("smg-sdk:plugin/exchange@1.0.0#begin")
void smg_x_begin(const char *a, size_t an, const char *b, size_t bn, const char *c, size_t cn, const char *d, size_t dn,
                 const char *e, size_t en, const char *f, size_t fn, const char *g, size_t gn) {
  begin((smg_about){{a, an}, {b, bn}, {c, cn}, {d, dn}, {e, en}, {f, fn}, {g, gn}});
  smg_free_all();
}
SMG_EXPORT("smg-sdk:plugin/exchange@1.0.0#finish") void smg_x_finish(void) { finish(); }
#endif

#ifdef SMG_REQUEST_HEAD
typedef struct { smg_text method, path, query; smg_headers headers; } smg_request_head;
smg_head_verdict on_request_head(smg_request_head head);
static smg_head_verdict smg_request_head_answer;
SMG_EXPORT("smg-sdk:plugin/request-head@1.0.0#on-request-head")
void *smg_x_request_head(const char *m, size_t mn, const char *p, size_t pn, const char *q, size_t qn, smg_header *h, size_t hn) {
  smg_request_head_answer = on_request_head((smg_request_head){{m, mn}, {p, pn}, {q, qn}, {h, hn}});
  return &smg_request_head_answer;
}
SMG_POST("smg-sdk:plugin/request-head@1.0.0#on-request-head") void smg_p_request_head(void *answer) { smg_free_all(); }
#endif

#ifdef SMG_REQUEST_BODY
smg_text_verdict on_request_body(smg_text body);
static smg_text_verdict smg_request_body_answer;
SMG_EXPORT("smg-sdk:plugin/request-body@1.0.0#on-request-body") void *smg_x_request_body(const char *at, size_t size) {
  smg_request_body_answer = on_request_body((smg_text){at, size});
  return &smg_request_body_answer;
}
SMG_POST("smg-sdk:plugin/request-body@1.0.0#on-request-body") void smg_p_request_body(void *answer) { smg_free_all(); }
#endif

#ifdef SMG_RESPONSE_HEAD
typedef struct { uint16_t status; smg_headers headers; } smg_response_head;
smg_head_verdict on_response_head(smg_response_head head);
static smg_head_verdict smg_response_head_answer;
SMG_EXPORT("smg-sdk:plugin/response-head@1.0.0#on-response-head") void *smg_x_response_head(int status, smg_header *h, size_t hn) {
  smg_response_head_answer = on_response_head((smg_response_head){(uint16_t)status, {h, hn}});
  return &smg_response_head_answer;
}
SMG_POST("smg-sdk:plugin/response-head@1.0.0#on-response-head") void smg_p_response_head(void *answer) { smg_free_all(); }
#endif

#ifdef SMG_PIECES
enum smg_kind { SMG_KIND_WIRE, SMG_KIND_TEXT, SMG_KIND_REASONING, SMG_KIND_ARGUMENTS };
enum smg_mode { SMG_WANTS_NONE, SMG_WANTS_WIRE, SMG_WANTS_TEXT };
typedef struct { smg_text text; enum smg_kind kind; uint32_t choice; bool last; } smg_piece;
smg_text_verdict on_piece(smg_piece piece);
enum smg_mode wanted(void);
static smg_text_verdict smg_piece_answer;
SMG_EXPORT("smg-sdk:plugin/pieces@1.0.0#wanted") int smg_x_wanted(void) { return wanted(); }
SMG_EXPORT("smg-sdk:plugin/pieces@1.0.0#on-piece")
void *smg_x_piece(const char *at, size_t size, int kind, int choice, int last) {
  smg_piece_answer = on_piece((smg_piece){{at, size}, (enum smg_kind)kind, (uint32_t)choice, last != 0});
  return &smg_piece_answer;
}
SMG_POST("smg-sdk:plugin/pieces@1.0.0#on-piece") void smg_p_piece(void *answer) { smg_free_all(); }
#endif

#ifdef SMG_END
/* Numbers of tokens are -1 where they are not known. */
typedef struct { uint16_t status; smg_text outcome; double seconds; int64_t prompt, cached, completion; } smg_ending;
smg_text on_end(smg_ending how);
static smg_text smg_end_answer;
SMG_EXPORT("smg-sdk:plugin/end@1.0.0#on-end")
void *smg_x_end(int status, const char *o, size_t on, double seconds, int a, int64_t av, int b, int64_t bv, int c, int64_t cv) {
  smg_end_answer = on_end((smg_ending){(uint16_t)status, {o, on}, seconds, a ? av : -1, b ? bv : -1, c ? cv : -1});
  return &smg_end_answer;
}
SMG_POST("smg-sdk:plugin/end@1.0.0#on-end") void smg_p_end(void *answer) { smg_free_all(); }
#endif

#ifdef SMG_ERROR
typedef struct { uint16_t status; smg_text code, message; } smg_failure;
smg_error_verdict on_error(smg_failure failure);
static smg_error_verdict smg_error_answer;
SMG_EXPORT("smg-sdk:plugin/error@1.0.0#on-error")
void *smg_x_error(int status, const char *c, size_t cn, const char *m, size_t mn) {
  smg_error_answer = on_error((smg_failure){(uint16_t)status, {c, cn}, {m, mn}});
  return &smg_error_answer;
}
SMG_POST("smg-sdk:plugin/error@1.0.0#on-error") void smg_p_error(void *answer) { smg_free_all(); }
#endif

#ifdef SMG_STORAGE
typedef struct { smg_text operation, kind, id, tenant, principal; smg_headers texts; } smg_storage_call;
typedef struct { uint8_t what; union { smg_headers change; smg_rejection reject; }; } smg_storage_verdict;
smg_storage_verdict before_storing(smg_storage_call call);
void after_storing(smg_storage_call call);
static smg_storage_verdict smg_storage_answer;
SMG_EXPORT("smg-sdk:plugin/storage@1.0.0#before")
void *smg_x_storage_before(const char *a, size_t an, const char *b, size_t bn, const char *c, size_t cn, const char *d,
                           size_t dn, const char *e, size_t en, smg_header *t, size_t tn) {
  smg_storage_answer = before_storing((smg_storage_call){{a, an}, {b, bn}, {c, cn}, {d, dn}, {e, en}, {t, tn}});
  return &smg_storage_answer;
}
SMG_POST("smg-sdk:plugin/storage@1.0.0#before") void smg_p_storage_before(void *answer) { smg_free_all(); }
SMG_EXPORT("smg-sdk:plugin/storage@1.0.0#after")
void smg_x_storage_after(const char *a, size_t an, const char *b, size_t bn, const char *c, size_t cn, const char *d,
                         size_t dn, const char *e, size_t en, smg_header *t, size_t tn) {
  after_storing((smg_storage_call){{a, an}, {b, bn}, {c, cn}, {d, dn}, {e, en}, {t, tn}});
  smg_free_all();
}
#endif

#endif
