/* A plugin that fails in the hook and in the way that its configuration names: {"do": "response_head spin wire"}. It wants pieces
 * of the kind that the configuration names, and writes what it passes in capital letters, so that what it has not seen is known. */
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

static char kept[64];
static size_t kept_size;
static volatile int64_t sink;
static int pieces;

/* Whether the configuration has this word. */
static bool says(const char *word) {
  size_t size = 0;
  while (word[size]) size++;
  for (size_t at = 0; at + size <= kept_size; at++) {
    size_t same = 0;
    while (same < size && kept[at + same] == word[same]) same++;
    if (same == size) return true;
  }
  return false;
}

static void fail_in(const char *hook) {
  if (!says(hook)) return;
  if (says("spin")) for (;;) sink++;
  if (says("trap")) __builtin_trap();
}

smg_text configure(smg_text config) {
  for (kept_size = 0; kept_size < config.size && kept_size < sizeof kept; kept_size++) kept[kept_size] = config.at[kept_size];
  return (smg_text){0, 0};
}

void begin(smg_about about) { pieces = 0; fail_in("begin"); }
void finish(void) { fail_in("finish"); }

smg_head_verdict on_request_head(smg_request_head head) { fail_in("request_head"); return smg_head_proceed(); }
smg_text_verdict on_request_body(smg_text body) { fail_in("request_body"); return smg_proceed(); }
smg_head_verdict on_response_head(smg_response_head head) { fail_in("response_head"); return smg_head_proceed(); }

enum smg_mode wanted(void) { return says("wire") ? SMG_WANTS_WIRE : says("text") ? SMG_WANTS_TEXT : SMG_WANTS_NONE; }

smg_text_verdict on_piece(smg_piece piece) {
  pieces++;
  fail_in("first_piece");
  if (pieces == 3) fail_in("third_piece");
  char *made = smg_alloc(piece.text.size);
  for (size_t at = 0; at < piece.text.size; at++) {
    char found = piece.text.at[at];
    made[at] = found >= 'a' && found <= 'z' ? found - 32 : found;
  }
  return smg_replace((smg_text){made, piece.text.size});
}

smg_text on_end(smg_ending ending) { fail_in("end"); return (smg_text){0, 0}; }
smg_error_verdict on_error(smg_failure failure) { fail_in("error"); return (smg_error_verdict){0}; }

smg_storage_verdict before_storing(smg_storage_call call) {
  if (call.texts.size) fail_in("store "); /* at writes; reads find what was kept */
  return (smg_storage_verdict){.what = SMG_PROCEED};
}
void after_storing(smg_storage_call call) { fail_in("stored"); }
