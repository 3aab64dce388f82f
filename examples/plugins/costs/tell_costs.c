/* Tells what an answer cost: prices as headers, and the sum as an event behind a stream; see tell_costs.py, which does the same.
 * Configuration: {"prompt": 2.5, "completion": 10}, the prices of a million tokens. Built by: smg-gateway plugin build tell_costs.c */
#define SMG_SETUP
#define SMG_RESPONSE_HEAD
#define SMG_END
#include "smg_plugin.h"

static double prompt, completion; /* millionths of a token */
static char prices[2][24];

static double number(const char *at, const char *end, const char **behind) {
  double found = 0, unit = 1;
  bool fraction = false;
  for (; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !fraction)); at++) {
    if (*at == '.') { fraction = true; continue; }
    if (fraction) found += (*at - '0') * (unit /= 10);
    else found = found * 10 + (*at - '0');
  }
  *behind = at;
  return found;
}

static bool price(smg_text config, smg_text name, double *found, char *kept) {
  for (size_t i = 0; i + name.size + 2 < config.size; i++) {
    size_t same = 0;
    while (same < name.size && config.at[i + 1 + same] == name.at[same]) same++;
    if (config.at[i] != '"' || same < name.size || config.at[i + 1 + same] != '"') continue;
    const char *at = config.at + i + name.size + 2, *end = config.at + config.size, *behind;
    while (at < end && (*at == ':' || *at == ' ')) at++;
    *found = number(at, end, &behind);
    size_t size = (size_t)(behind - at);
    if (!size || size >= sizeof prices[0]) return false;
    for (size_t k = 0; k < size; k++) kept[k] = at[k];
    kept[size] = 0;
    return true;
  }
  return false;
}

smg_text configure(smg_text config) {
  if (!price(config, SMG_TEXT("prompt"), &prompt, prices[0])) return SMG_TEXT("prompt is missing: the price of a million tokens");
  if (!price(config, SMG_TEXT("completion"), &completion, prices[1]))
    return SMG_TEXT("completion is missing: the price of a million tokens");
  return (smg_text){0, 0};
}

static size_t length(const char *text) {
  size_t size = 0;
  while (text[size]) size++;
  return size;
}

smg_head_verdict on_response_head(smg_response_head head) {
  smg_header *set = smg_alloc(2 * sizeof *set);
  set[0] = (smg_header){SMG_TEXT("x-cost-per-million-prompt"), {prices[0], length(prices[0])}};
  set[1] = (smg_header){SMG_TEXT("x-cost-per-million-completion"), {prices[1], length(prices[1])}};
  return (smg_head_verdict){.what = SMG_CHANGE, .change = {.set = {set, 2}}};
}

static char *put(char *at, const char *text) {
  while (*text) *at++ = *text++;
  return at;
}

static char *put_number(char *at, uint64_t value, unsigned least) { /* with at least so many digits */
  char digits[24];
  unsigned size = 0;
  do digits[size++] = (char)('0' + value % 10); while ((value /= 10) || size < least);
  while (size) *at++ = digits[--size];
  return at;
}

smg_text on_end(smg_ending how) {
  if (how.prompt < 0 || how.completion < 0) return (smg_text){0, 0};
  double micros = (double)how.prompt * prompt + (double)how.completion * completion + 0.5; /* millionths of the currency */
  char *made = smg_alloc(256), *at = made;
  at = put(at, "event: cost\ndata: {\"prompt_tokens\":");
  at = put_number(at, (uint64_t)how.prompt, 1);
  at = put(at, ",\"completion_tokens\":");
  at = put_number(at, (uint64_t)how.completion, 1);
  at = put(at, ",\"cost\":");
  at = put_number(at, (uint64_t)micros / 1000000, 1);
  at = put(at, ".");
  at = put_number(at, (uint64_t)micros % 1000000, 6);
  at = put(at, "}\n\n");
  return (smg_text){made, (size_t)(at - made)};
}
