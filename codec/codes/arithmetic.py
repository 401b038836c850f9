"""The two arithmetics that codes are made of: float64 numbers and the bytes of GF(2^8)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from riprap.codec.codes import gf256
from riprap.codec.codes._kernels import ByteMatrix, Coefficients, RealMatrix


class Arithmetic(ABC):
    """The numbers that coefficients and blocks consist of, and the way to solve for lost ones. Stateless."""

    exact: bool
    """True when decoding gives back every bit."""

    @abstractmethod
    def check(self, dtype: np.dtype) -> None:
        """ValueError unless blocks of this dtype can be coded."""

    @abstractmethod
    def compiled(self, coefficients: np.ndarray) -> Coefficients:
        """The matrix whose kernel combines blocks by these coefficients."""

    @abstractmethod
    def recovery(self, of_lost: np.ndarray, of_present: np.ndarray) -> np.ndarray:
        """Coefficients of the lost data in terms of m parity blocks, then of the data that is present.

        `of_lost` (m, m) and `of_present` (m, k - m) are the columns of those parity blocks. ValueError if singular.
        """

    @abstractmethod
    def condition(self, system: np.ndarray) -> float:
        """Factor by which decoding with this system may enlarge relative errors (2-norm); 1 where it is exact."""


class RealArithmetic(Arithmetic):
    """float64 numbers, with rounding. An infinity or NaN in a block spreads to what is decoded with it."""

    exact = False

    def check(self, dtype: np.dtype) -> None:
        if dtype != np.float64:
            raise ValueError(f"real-number codes take float64, not {dtype}; use a byte code (gf256, xor)")

    def compiled(self, coefficients: np.ndarray) -> Coefficients:
        return RealMatrix(coefficients)

    def recovery(self, of_lost: np.ndarray, of_present: np.ndarray) -> np.ndarray:
        try:
            return np.linalg.solve(of_lost, np.concatenate([np.eye(len(of_lost)), -of_present], axis=1))
        except np.linalg.LinAlgError as error:
            raise ValueError("these coefficients are singular to the precision of float64; use 'stable'") from error

    def condition(self, system: np.ndarray) -> float:
        return float(np.linalg.cond(system))


class ByteArithmetic(Arithmetic):
    """The raw bytes of any dtype of fixed size, as elements of GF(2^8)."""

    exact = True

    def check(self, dtype: np.dtype) -> None:
        if dtype.hasobject:
            raise ValueError(f"byte codes take arrays of plain bytes, not {dtype} with references to objects")

    def compiled(self, coefficients: np.ndarray) -> Coefficients:
        return ByteMatrix(coefficients)

    def recovery(self, of_lost: np.ndarray, of_present: np.ndarray) -> np.ndarray:
        try:
            return gf256.solve(of_lost, np.concatenate([np.eye(len(of_lost), dtype=np.uint8), of_present], axis=1))
        except ZeroDivisionError as error:
            raise ValueError("these coefficients are singular") from error

    def condition(self, system: np.ndarray) -> float:
        return 1.0
