/* A plugin that answers more than anybody wants to read: which hook, and how many, its configuration says. All parts of an answer
 * are one and the same in its memory, so they cost the guest next to nothing. */
#define SMG_SETUP
#define SMG_EXCHANGE
#define SMG_REQUEST_HEAD
#define SMG_REQUEST_BODY
#define SMG_RESPONSE_HEAD
#define SMG_PIECES
#define SMG_END
#define SMG_ERROR
#define SMG_STORAGE
#include "smg_plugin.h"

static char mode[32];
static size_t many;

static bool is(const char *name) {
  size_t i = 0;
  for (; name[i] && mode[i] == name[i]; i++) {}
  return !name[i] && !mode[i];
}

static smg_text long_text(void) {
  char *made = smg_alloc(many);
  for (size_t i = 0; i < many; i++) made[i] = 'x';
  return (smg_text){made, many};
}

static smg_headers many_headers(smg_text text) {
  smg_header *made = smg_alloc(many * sizeof(smg_header));
  for (size_t i = 0; i < many; i++) made[i] = (smg_header){text, text};
  return (smg_headers){made, many};
}

smg_text configure(smg_text config) { /* {"do": "set", "many": 1000} */
  size_t n = 0, at = 0;
  while (at < config.size && config.at[at] != ':') at++;
  for (at += 3; at < config.size && config.at[at] != '"' && n < sizeof mode - 1; at++) mode[n++] = config.at[at];
  mode[n] = 0;
  for (many = 0; at < config.size; at++) if (config.at[at] >= '0' && config.at[at] <= '9') many = many * 10 + (config.at[at] - '0');
  return is("configure") ? long_text() : (smg_text){0, 0};
}

void begin(smg_about about) {}
void finish(void) {}

static smg_head_verdict head(void) {
  smg_head_verdict said = {.what = SMG_CHANGE};
  if (is("set")) said.change.set = many_headers(SMG_TEXT("x"));
  if (is("add")) said.change.add = many_headers(SMG_TEXT("x"));
  if (is("set a long text")) { many /= 2; said.change.set = many_headers((smg_text){0, 1 << 16}); many *= 2; }
  if (is("remove")) {
    smg_text *made = smg_alloc(many * sizeof(smg_text));
    for (size_t i = 0; i < many; i++) made[i] = SMG_TEXT("x");
    said.change.remove = (smg_texts){made, many};
  }
  if (is("tenant")) said.change.tenant = (smg_option){1, long_text()};
  if (is("principal")) said.change.principal = (smg_option){1, long_text()};
  if (is("reject")) return smg_head_refuse(400, long_text());
  return said;
}

smg_head_verdict on_request_head(smg_request_head shown) { return head(); }
smg_head_verdict on_response_head(smg_response_head shown) { return head(); }
static smg_text_verdict text(void) { return is("reject") ? smg_refuse(400, long_text()) : smg_replace(long_text()); }
smg_text_verdict on_request_body(smg_text body) { return text(); }
enum smg_mode wanted(void) { return SMG_WANTS_WIRE; }
smg_text_verdict on_piece(smg_piece piece) {
  if (is("log")) smg_log(SMG_INFO, long_text());
  if (is("count")) smg_count(long_text(), 1);
  if (is("log") || is("count")) return smg_proceed();
  return text();
}
smg_text on_end(smg_ending how) { return long_text(); }
smg_error_verdict on_error(smg_failure failure) { return (smg_error_verdict){.what = 1, .reject = {400, long_text()}}; }
smg_storage_verdict before_storing(smg_storage_call call) {
  if (is("reject")) return (smg_storage_verdict){.what = SMG_REJECT, .reject = {400, long_text()}};
  return (smg_storage_verdict){.what = SMG_CHANGE, .change = many_headers(SMG_TEXT("x"))};
}
void after_storing(smg_storage_call call) {}
