/* A plugin that does what its configuration, a string, says: every way in which a guest could harm its gateway. */
#define SMG_SETUP
#define SMG_EXCHANGE
#define SMG_REQUEST_HEAD
#define SMG_REQUEST_BODY
#define SMG_PIECES
#include "smg_plugin.h"

static char mode[32];
static char kept[64];
static size_t kept_size;
static volatile int64_t sink;

static bool is(const char *name) {
  size_t i = 0;
  for (; name[i] && mode[i] == name[i]; i++) {}
  return !name[i] && !mode[i];
}

smg_text configure(smg_text config) { /* {"do": "spin"} */
  size_t n = 0, from = 0;
  for (size_t i = 0; i + 1 < config.size; i++) if (config.at[i] == ':') { from = i + 3; break; }
  for (size_t i = from; from && i < config.size && config.at[i] != '"' && n < sizeof mode - 1; i++) mode[n++] = config.at[i];
  mode[n] = 0;
  if (!n) return SMG_TEXT("do is missing: one of spin, recurse, ...");
  if (is("spin at the start")) for (;;) sink++;
  return (smg_text){0, 0};
}

void begin(smg_about about) {}
void finish(void) { if (!is("remember all")) kept_size = 0; }

__attribute__((noinline)) static int64_t deeper(int64_t n) {
  if (!n) return sink;
  int64_t found = deeper(n + 1);
  sink = found;
  return found + n;
}

static bool has(smg_request_head head, const char *name) {
  for (size_t at = 0; at < head.headers.size; at++) {
    smg_text found = head.headers.at[at].name;
    size_t same = 0;
    while (same < found.size && name[same] == found.at[same]) same++;
    if (same == found.size && !name[same]) return true;
  }
  return false;
}

smg_head_verdict on_request_head(smg_request_head head) {
  static smg_header one;
  smg_head_verdict said = {.what = SMG_CHANGE};
  said.change = (smg_change){.set = {&one, 1}};
  one = (smg_header){SMG_TEXT("x-guest"), SMG_TEXT("was here")};
  if (is("pass")) return smg_head_proceed();
  if (is("echo")) said.change.set = head.headers;
  if (is("spin") || (is("spin for x-spin") && has(head, "x-spin"))) for (;;) sink++;
  if (is("recurse")) sink = deeper(1);
  if (is("allocate")) for (;;) ((volatile char *)smg_alloc(1 << 20))[0] = 1;
  if (is("trap")) __builtin_trap();
  if (is("outside")) sink = *(volatile int64_t *)0xfffffff0u;
  if (is("half a header")) one.name = (smg_text){"x", (size_t)0x7fffffff};
  if (is("no utf-8")) one.value = (smg_text){"\xff\xfe", 2};
  if (is("cr lf")) one.value = SMG_TEXT("1\r\nx-admin: yes");
  if (is("framing")) one.name = SMG_TEXT("Content-Length");
  if (is("tenant")) said.change.tenant = (smg_option){1, SMG_TEXT("somebody-else")};
  if (is("a case that is none")) said.what = 77;
  if (is("flood")) for (int i = 0; i < 100000; i++) smg_log(SMG_WARNING, SMG_TEXT("a line\nand another"));
  if (is("counters")) for (char c = 'a'; c <= 'z'; c++) for (char d = 'a'; d <= 'z'; d++) {
    char name[3] = {c, d, 0};
    smg_count((smg_text){name, 2}, 1);
  }
  if (is("refuse")) return smg_head_refuse(403, SMG_TEXT("Not you."));
  return said;
}

smg_text_verdict on_request_body(smg_text body) {
  if (is("a body beyond bounds")) {
    size_t size = (size_t)8 << 20;
    char *made = smg_alloc(size);
    for (size_t i = 0; i < size; i++) made[i] = 'x';
    return smg_replace((smg_text){made, size});
  }
  if (is("remember") || is("remember all")) {
    char *made = smg_alloc(sizeof kept);
    size_t size = kept_size;
    for (size_t i = 0; i < size; i++) made[i] = kept[i];
    for (kept_size = 0; kept_size < body.size && kept_size < sizeof kept; kept_size++) kept[kept_size] = body.at[kept_size];
    return smg_replace((smg_text){made, size});
  }
  return smg_proceed();
}

enum smg_mode wanted(void) { return is("texts") ? SMG_WANTS_TEXT : SMG_WANTS_WIRE; }

smg_text_verdict on_piece(smg_piece piece) {
  char *made = smg_alloc(piece.text.size);
  if (is("count bytes")) {
    smg_count(SMG_TEXT("bytes"), (double)piece.text.size);
    return smg_proceed();
  }
  if (is("spin in a piece")) for (;;) sink++;
  if (is("long in a piece")) for (int i = 0; i < 1000000; i++) sink++;
  for (size_t i = 0; i < piece.text.size; i++) {
    char c = piece.text.at[i];
    made[i] = c >= '0' && c <= '9' ? '#' : c;
  }
  return smg_replace((smg_text){made, piece.text.size});
}
