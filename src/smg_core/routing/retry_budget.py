"""The number of retries allowed, so that a storm of failures never multiplies the load.

Each request pays a share of a retry into its model's budget, up to a reserve; each retry takes a whole one out. In the long run
there are then at most that share of retries for each request, whatever fails, and the reserve covers the burst when a worker is
lost. Pure. Above: pipeline.flow.flow. Below: settings.
"""

from smg_core.routing.settings import RoutingConfig

__all__ = ["RetryBudget", "RetryBudgets"]


class RetryBudget:
    """The budget of one model; full at first."""

    __slots__ = ("_left", "_reserve", "_share")

    def __init__(self, share: float, reserve: float) -> None:
        self._share = share
        self._reserve = reserve
        self._left = reserve

    def pay(self) -> None:
        """Called once for each turn of a model."""
        self._left = min(self._reserve, self._left + self._share)

    def take(self) -> bool:
        """Whether there is a retry left; it is then taken."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def give_back(self) -> None:
        """Put back a retry that was taken and not made."""
        self._left = min(self._reserve, self._left + 1)


class RetryBudgets:
    """The budgets of all models that are served, by name."""

    def __init__(self, settings: RoutingConfig) -> None:
        self._settings = settings
        self._budgets: dict[str, RetryBudget] = {}

    def of(self, model: str) -> RetryBudget:
        """The budget of a model that is served."""
        budget = self._budgets.get(model)
        if budget is None:
            settings = self._settings
            budget = self._budgets[model] = RetryBudget(settings.retry_share, settings.retry_reserve)
        return budget

    def paid(self, model: str) -> RetryBudget:
        """The budget of a model that is served, into which one of its turns has paid."""
        budget = self._budgets.get(model) or self.of(model)
        budget.pay()
        return budget
