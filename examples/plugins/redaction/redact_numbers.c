/* Takes long numbers out of what a model says, also those that are cut over several pieces: see redact_numbers.py, which does the
 * same. Configuration: {"digits": 7}. Built by: smg-gateway plugin build redact_numbers.c */
#define SMG_SETUP
#define SMG_EXCHANGE
#define SMG_PIECES
#include "smg_plugin.h"

enum { LONGEST = 64, CHOICES = 128 };
typedef struct { char held[LONGEST + 1]; uint8_t size, digits; bool inside; } numbers; /* the text of one choice */
static numbers texts[CHOICES];
static unsigned fewest = 7;
static char *out;

smg_text configure(smg_text config) {
  unsigned found = 0;
  for (size_t i = 0; i < config.size; i++)
    if (config.at[i] >= '0' && config.at[i] <= '9') found = found * 10 + (unsigned)(config.at[i] - '0');
  if (found > LONGEST) return SMG_TEXT("digits: at most 64");
  if (found) fewest = found;
  return (smg_text){0, 0};
}

void begin(smg_about about) {
  for (size_t i = 0; i < CHOICES; i++) texts[i] = (numbers){.size = 0};
}
void finish(void) {}

enum smg_mode wanted(void) { return SMG_WANTS_TEXT; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_between(char c) { return c == ' ' || c == '.' || c == '(' || c == ')' || c == '-'; }

static void ended(numbers *n) { /* what was held back of a number that ends here, or was none */
  for (size_t i = 0; i < n->size; i++) *out++ = n->held[i];
  *n = (numbers){.size = 0};
}

static void after(numbers *n, char c, bool masks) {
  static const char instead[] = "[number]";
  if (!is_digit(c) && !(is_between(c) && (n->size || n->inside))) {
    ended(n);
    *out++ = c;
    return;
  }
  if (n->inside && masks) {
    *out++ = is_digit(c) ? '9' : c;
  } else if (n->inside) {
    if (is_digit(c)) n->size = 0;
    else n->held[n->size++] = c;
    if (n->size > LONGEST) ended(n);
  } else {
    n->held[n->size++] = c;
    n->digits += is_digit(c);
    if (n->digits >= fewest) {
      if (masks) for (size_t i = 0; i < n->size; i++) *out++ = is_digit(n->held[i]) ? '9' : n->held[i];
      else for (size_t i = 0; i < sizeof instead - 1; i++) *out++ = instead[i];
      *n = (numbers){.inside = true};
    } else if (n->size > LONGEST) {
      ended(n);
    }
  }
}

smg_text_verdict on_piece(smg_piece piece) {
  if (piece.choice >= CHOICES) return smg_refuse(400, SMG_TEXT("There are too many choices for a plugin of this gateway."));
  numbers *n = &texts[piece.choice];
  size_t room = piece.text.size * sizeof "[number]" + 2 * sizeof n->held;
  char *made = out = smg_alloc(room);
  for (size_t i = 0; i < piece.text.size; i++) after(n, piece.text.at[i], piece.kind == SMG_KIND_ARGUMENTS);
  if (piece.last) ended(n);
  size_t size = (size_t)(out - made);
  bool changed = size != piece.text.size;
  for (size_t i = 0; i < size && !changed; i++) changed = made[i] != piece.text.at[i];
  return changed ? smg_replace((smg_text){made, size}) : smg_proceed();
}
