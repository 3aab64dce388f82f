/* Logs each exchange: whose it was, how it ended, and how much was said, without a word of it; see log_exchanges.py, which does the
 * same. Built by: smg-gateway plugin build log_exchanges.c */
#define SMG_EXCHANGE
#define SMG_REQUEST_BODY
#define SMG_END
#include "smg_plugin.h"

static char line[1024];
static size_t size, body_bytes;

static void put(smg_text text) {
  for (size_t i = 0; i < text.size && size < sizeof line; i++) line[size++] = text.at[i];
}

static void put_number(uint64_t value) {
  char digits[24];
  size_t count = 0;
  do digits[count++] = (char)('0' + value % 10); while (value /= 10);
  while (count) put((smg_text){&digits[--count], 1});
}

static void field(smg_text name, smg_text value) {
  put(name);
  put(value);
}

void begin(smg_about about) {
  size = body_bytes = 0;
  field(SMG_TEXT("tenant="), about.tenant);
  field(SMG_TEXT(" principal="), about.principal);
  field(SMG_TEXT(" path="), about.path);
}
void finish(void) { size = 0; }

smg_text_verdict on_request_body(smg_text body) {
  body_bytes = body.size;
  return smg_proceed();
}

smg_text on_end(smg_ending how) {
  field(SMG_TEXT(" outcome="), how.outcome);
  put(SMG_TEXT(" status="));
  put_number(how.status);
  put(SMG_TEXT(" asked_bytes="));
  put_number(body_bytes);
  if (how.completion >= 0) {
    put(SMG_TEXT(" completion_tokens="));
    put_number((uint64_t)how.completion);
  }
  smg_log(SMG_INFO, (smg_text){line, size});
  smg_count(SMG_TEXT("exchanges"), 1);
  return (smg_text){0, 0};
}
